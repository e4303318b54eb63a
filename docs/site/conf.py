# The site that ./duet docs builds: the repository's Markdown pages where they are, and its headers as
# Doxygen reads them (build.sh). The source folder is the repository.
import os
import pathlib

project = "Duet"
html_title = "Duet"
root_doc = "README"
extensions = ["myst_parser"]
include_patterns = [
    "README.md",
    "CONTRIBUTING.md",
    "docs/*.md",
    "docs/course/*.md",
    "docs/results/*.md",
    "lessons/*.md",
    "lessons/*/*.md",
    "framework/layers/*/README.md",
]
exclude_patterns = [".*", "apps", "build*", "cmake", "configs", "runs", "tests"]  # not walked through

myst_heading_anchors = 6
suppress_warnings = [
    "myst.header",  # GitHub takes ### under #
    "duplicate_declaration.cpp",  # of the namespace, once a header
]

highlight_language = "text"  # of blocks that name none

html_theme = "furo"
html_additional_pages = {"index": "index.html"}
templates_path = [str(pathlib.Path(__file__).parent)]
html_copy_source = False
html_show_copyright = False
html_show_sourcelink = False
html_use_index = False
html_show_search_summary = False  # it would fetch pages, which a browser refuses to pages from disk

# The pages under a page, by caption. GitHub has links for that; Sphinx wants lists.
layers = "/framework/layers/*/README"
course = ["transpose", "reduction", "softmax", "batch_norm", "linear", "conv2d"]
contents = {
    "README": {
        "Use": ["/docs/configuration", "/docs/data", "/docs/benchmarking", "/docs/profiling", "/docs/python"],
        "Learn": ["/docs/course/README", "/lessons/README", "/docs/explain"],
        "Extend": [
            "/docs/kernels-at-run-time",
            "/docs/add-a-kernel",
            "/docs/add-a-layer",
            "/docs/architecture",
            "/CONTRIBUTING",
        ],
        "Results": [
            "Batch 64 </docs/results/fashion_mnist_cnn_batch64>",
            "Batch 1024 </docs/results/fashion_mnist_cnn_batch1024>",
            "/docs/results/accuracy",
        ],
    },
    "docs/architecture": {"Layers": [layers]},
    "docs/course/README": {"Course": [f"/docs/course/{page}" for page in course]},
    "lessons/README": {"Lessons": ["/lessons/*/README"]},
}

# A new page is in the list before anybody gives it a place.
listed = str(contents)
for caption, folder in {"Use": "docs", "Results": "docs/results"}.items():
    for page in sorted((pathlib.Path(__file__).parents[2] / folder).glob("*.md")):
        if f"/{folder}/{page.stem}" not in listed:
            contents["README"][caption].append(f"/{folder}/{page.stem}")

if os.environ.get("DUET_DOXYGEN_XML"):
    extensions.append("breathe")
    breathe_projects = {"duet": os.environ["DUET_DOXYGEN_XML"]}
    breathe_default_project = "duet"
    include_patterns.append("docs/site/reference/*.md")
    contents["README"]["Extend"].append("/docs/site/reference/README")
    parts = ["core", "device", "layers", "problems", "data", "net", "train", "measure"]
    contents["docs/site/reference/README"] = {"Parts": [f"/docs/site/reference/{part}" for part in parts]}


def add_contents(app, page, source):
    for caption, pages in contents.get(page, {}).items():
        lines = ["", "```{toctree}", ":hidden:", ":glob:", f":caption: {caption}", "", *pages, "```", ""]
        source[0] += "\n".join(lines)


def setup(app):
    app.connect("source-read", add_contents)
    return {"parallel_read_safe": True}
