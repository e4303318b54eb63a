"""Opens reports in a headless browser and looks at what was drawn.

usage: run.sh report_test.py WRITE_REPORT [TEST...]
Every expected position is worked out here, from the numbers of the results.
"""
import base64
import json
import math
import pathlib
import subprocess
import sys
import tempfile
import time

import browser

WRITE_REPORT = ""


class ReportTest(browser.BrowserTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.folder = pathlib.Path(folder.name)

    def open(self, kind, **emulated):
        """Opens a report; returns its results. What the browser complains of is a failure."""
        self.emulate(**emulated)
        results, page = self.folder / f"{kind}.json", self.folder / f"{kind}.html"
        if not page.exists():
            subprocess.run([WRITE_REPORT, kind, str(results), str(page)], check=True)
        self.browser.get(page.as_uri())
        self.check_log()
        return json.loads(results.read_text())

    def charts(self):
        return self.script("return charts();")

    def chart(self, start, place=0):
        """A chart by the start of its label for those who cannot see it."""
        found = [chart for chart in self.charts() if chart["label"].startswith(start)]
        self.assertGreater(len(found), place, f"no chart '{start}'")
        return found[place]

    def near(self, found, expected, what):
        self.assertAlmostEqual(found, expected, delta=1.0, msg=what)

    # ---- what is drawn ----

    def check_drawn(self, chart):
        """Every canvas shows many colours, and those of its data."""
        seen = self.script("return pixels(arguments[0]);", chart["index"])
        self.assertGreater(seen["colours"], 5, chart["label"])
        for dataset in chart["datasets"]:
            drawn = any(point is not None for point in dataset["values"])
            if drawn and dataset["kind"] != "roof":
                self.assertTrue(
                    any(alike(colour, dataset["colour"]) for colour in seen["all"]),
                    f"{chart['label']}: nothing of {dataset['label']}")

    def test_every_canvas_is_drawn(self):
        for kind in ("two", "three", "six", "mismatch"):
            for scheme in ("light", "dark"):
                self.open(kind, scheme=scheme)
                charts = self.charts()
                self.assertEqual(len(charts), 11)
                for chart in charts:
                    self.assertGreater(chart["width"], 300)
                    self.assertGreater(chart["height"], 150)
                    self.assertGreater(len(chart["label"]), 10)
                    self.check_drawn(chart)

    def check_bars(self, results, place, arms):
        batch = results["layers"][place]
        rows = batch["rows"]
        chart = self.chart("Time of each layer", place)
        self.assertIn(f"batch {batch['batch']:.0f}", chart["label"])
        self.assertEqual(len(chart["datasets"]), arms + 1)
        self.assertEqual((chart["x"]["type"], chart["x"]["min"]), ("linear", 0))
        places, inside = [], []
        for i, dataset in enumerate(chart["datasets"]):
            for j, row in enumerate(rows):
                if i < arms:
                    measured = row["arms"][i]["us"]
                    value = measured["median"] if measured else None
                else:
                    value = row["floor_us"]
                bar = dataset["positions"][j]
                what = f"{dataset['label']} {row['layer']} {row['pass']}"
                if value is None:
                    self.assertIsNone(dataset["values"][j], what)
                    continue
                end = position(chart["x"], value)
                self.near(bar["x"], end, what)
                self.near(bar["base"], chart["x"]["from"], what)
                if end - chart["x"]["from"] < 8 or bar["height"] < 4:
                    continue
                places += [[end - 4, bar["y"]], [end + 3, bar["y"]]]
                inside.append((dataset["colour"], what))
        # The pixels: the arm's colour within the bar, another one behind its end.
        seen = self.pixels_at(chart, places)
        self.assertGreater(len(inside), arms * len(rows) * 0.3)
        for i, (colour, what) in enumerate(inside):
            self.assertEqual(seen[2 * i], colour, what)
            self.assertNotEqual(seen[2 * i + 1], colour, what)

    def pixels_at(self, chart, places):
        return self.script("return pixelsAt(...arguments);", chart["index"], places)

    def test_bars_are_as_long_as_the_times(self):
        for kind, arms in (("two", 2), ("three", 3), ("mismatch", 2)):
            results = self.open(kind)
            for place in (0, 1):
                self.check_bars(results, place, arms)

    def test_dots_of_speedups(self):
        results = self.open("two")
        for place, batch in enumerate(results["layers"]):
            chart = self.chart("Speedup of each layer and pass", place)
            dots = [(row["ratios"][0]["speedup"], i) for i, row in enumerate(batch["rows"])]
            self.check_points(chart, chart["datasets"][0], dots)
            self.assertEqual(chart["x"]["type"], "logarithmic")
            self.assertLess(chart["x"]["min"], 1)
            self.assertGreater(chart["x"]["max"], 1)
            # A line at 1, and through a dot the line of its interval.
            even = position(chart["x"], 1)
            between = [[even + dx, position(chart["y"], 0.5)] for dx in (-1, 0, 1)]
            away = [[even + 6, position(chart["y"], 0.4)]]
            self.assertFalse(set(self.pixels_at(chart, between)) <= set(self.pixels_at(chart, away)))

    def check_points(self, chart, dataset, points):
        self.assertEqual(len(dataset["positions"]), len(points), dataset["label"])
        for (x, y), found in zip(points, dataset["positions"]):
            what = f"{chart['label']}: {dataset['label']} at {x}, {y}"
            self.near(found["x"], position(chart["x"], x), what)
            self.near(found["y"], position(chart["y"], y), what)

    def test_roofline_points_and_lines(self):
        results = self.open("two")
        ceilings = results["environment"]["ceilings"]
        bandwidth, peak = ceilings["copy_gb_per_s"], ceilings["fp32_gflop_per_s"]
        for place, batch in enumerate(results["layers"]):
            chart = self.chart("Roofline", place)
            for arm in (0, 1):
                points = [
                    (row["flops"] / row["bytes"], row["arms"][arm]["gflop_per_s"])
                    for row in batch["rows"] if row.get("flops")
                ]
                self.assertEqual(len(points), 11)  # dropout and loss have no flops
                self.check_points(chart, chart["datasets"][arm], points)
                colours = {dataset["colour"] for dataset in chart["datasets"]}
                for point in chart["datasets"][arm]["positions"]:
                    # Another point's rim may lie over the middle.
                    around = [[point["x"] + dx, point["y"] + dy] for dx in (-2, 0, 2) for dy in (-2, 0, 2)]
                    self.assertTrue(colours & set(self.pixels_at(chart, around)), point)
            low, high = chart["x"]["min"], chart["x"]["max"]
            roof = [(low, low * bandwidth), (peak / bandwidth, peak), (high, peak)]
            self.check_points(chart, chart["datasets"][2], roof)
            middle = position(chart["x"], math.sqrt(high * peak / bandwidth))
            line = [[middle, position(chart["y"], peak) + dy] for dy in (-1, 0, 1)]
            self.assertIn(chart["datasets"][2]["colour"], self.pixels_at(chart, line))

    def test_every_arm_has_its_symbol(self):
        results = self.open("six")
        for start in ("Roofline", "Accuracy after training"):
            chart = self.chart(start)
            self.assertEqual(len({dataset["shape"] for dataset in chart["datasets"][:6]}), 6)
            for arm in range(len(results["arms"])):
                dataset = chart["datasets"][arm]
                points = [[point["x"], point["y"]] for point in dataset["positions"]]
                what = f"{chart['label']}: {dataset['label']}"
                # Some point has no other one over it.
                self.assertIn(dataset["colour"], self.pixels_at(chart, points), what)
                self.assertEqual(self.pixels_at(chart, [chart["legend"][arm]]), [dataset["colour"]], what)

    def test_curves(self):
        results = self.open("two")
        training = results["training"]
        loss, parted = self.chart("Loss of each step"), self.chart("Difference of the losses")
        for arm in (0, 1):
            steps = list(enumerate(training["arms"][arm]["loss"], 1))
            self.check_points(loss, loss["datasets"][arm], steps)
        steps = list(enumerate(training["differences"][0]["loss"], 1))
        self.check_points(parted, parted["datasets"][0], [point for point in steps if point[1] > 0])
        self.assertEqual(parted["y"]["type"], "logarithmic")
        self.assertEqual(len(parted["datasets"]), 3)  # and each arm against itself

        accuracy = self.chart("Accuracy after training")
        for arm in (0, 1):
            values = training["arms"][arm]["accuracy"]
            found = accuracy["datasets"][arm]["positions"]
            self.assertEqual(len(found), len(training["seeds"]))
            for seed, (value, point) in enumerate(zip(values, found)):
                self.near(point["y"], position(accuracy["y"], 100 * value), "accuracy")
                # The arms stand side by side, nearer to their seed than to the next.
                distance = point["x"] - position(accuracy["x"], seed)
                self.assertLess(abs(distance), 0.2 * (accuracy["x"]["to"] - accuracy["x"]["from"]) / 5)
                self.assertEqual(distance < 0, arm == 0)

    def test_training(self):
        for scheme in ("light", "dark"):
            self.open("run", scheme=scheme)
            charts = self.charts()
            self.assertEqual(len(charts), 4)
            for chart in charts:
                self.check_drawn(chart)
        loss = self.chart("Loss, by epoch")
        for dataset, first in zip(loss["datasets"], (1.0, 1.25)):
            for i, (value, place) in enumerate(zip(dataset["values"], dataset["positions"])):
                self.assertAlmostEqual(value, first / (i + 1))
                self.near(place["x"], position(loss["x"], i + 1), dataset["label"])
                self.near(place["y"], position(loss["y"], value), dataset["label"])
        self.assertEqual(self.chart("Accuracy, by epoch")["datasets"][0]["values"][0], 50)
        self.assertEqual(len(self.chart("Learning rate, by step")["datasets"][0]["values"]), 8)
        tables = self.script("return tableTexts();")
        self.assertEqual(len(tables["Every epoch"]), 4)
        self.assertIn("</script><b>&", json.dumps(tables["Confusion matrix"]))

    def test_throughput(self):
        results = self.open("three")
        for what in ("training", "inference"):
            chart = self.chart(f"{what.capitalize()}: images per second")
            for arm in range(3):
                points = [
                    (entry["batch"], entry["arms"][arm][f"{what}_images_per_s"])
                    for entry in results["throughput"]
                ]
                self.check_points(chart, chart["datasets"][arm], points)
            self.assertEqual(chart["x"]["type"], "logarithmic")
            self.assertEqual(chart["y"]["type"], "logarithmic")

    # ---- tables ----

    def test_every_number_is_in_a_table(self):
        results = self.open("two")
        text = self.script("return tableTexts();")
        for batch in results["layers"]:
            table = text[f"Times of the layers, batch {batch['batch']:.0f}"]
            self.assertEqual(len(table), len(batch["rows"]))
            for row, cells in zip(batch["rows"], table):
                self.assertEqual(cells[:2], [row["layer"], row["pass"]])
                times = [arm["us"]["median"] for arm in row["arms"]]
                expected = times + [times[1] - times[0], row["floor_us"]]
                for found, value in zip(cells[4:8], expected):
                    self.assertAlmostEqual(float(found.replace(",", "")), value, delta=0.006 * abs(value))
            self.assertEqual(
                len(text[f"Errors of every output, batch {batch['batch']:.0f}"]),
                2 * len(batch["rows"]))
        self.assertEqual(len(text["Loss and differences at every step"]), 200)
        self.assertEqual(len(text["Throughput of training by batch size"]), 6)
        self.assertEqual(len(text["Accuracy and loss by seed"]), 5)

    # ---- what may be missing, and what may be wrong ----

    def test_sections_may_be_missing(self):
        of_layers = {"layers", "totals", "errors", "roofline"}
        for kind, present in (
            ("layers", of_layers), ("training", {"training"}), ("throughput", {"throughput"}),
            ("empty", set()),
        ):
            self.open(kind)
            sections = set(self.script("return [...document.querySelectorAll('section')].map(s => s.id)"))
            self.assertEqual(sections & (of_layers | {"training", "throughput"}), present, kind)
            for chart in self.charts():
                self.check_drawn(chart)
            body = self.script("return document.body.innerText")
            for wrong in ("undefined", "NaN", "null", "could not be shown"):
                self.assertNotIn(wrong, body, kind)

    def test_mismatch_is_told_first(self):
        results = self.open("mismatch")
        box = self.script("return firstInMain();")
        self.assertIn(results["summary"]["first_mismatch"]["text"], box["text"])
        red, green, blue = box["colour"]
        self.assertGreater(red, 2 * max(green, blue))
        self.assertLess(box["top"], 400)
        self.assertIn("wrong", self.script("return tableTexts();")["Times of the layers, batch 64"][2])
        self.open("two")
        self.assertIn("No mismatch", self.script("return firstInMain();")["text"])

    def test_names_are_text(self):
        results = self.open("nasty")
        counts = self.script(
            "return [document.scripts.length, document.images.length,"
            " document.querySelectorAll('iframe,link,object,embed').length]")
        self.assertEqual(counts, [3, 0, 0])
        title = self.script("return document.querySelector('h1').textContent")
        self.assertEqual(title, results["name"])
        self.assertIn("<script>alert(1)", self.script("return document.body.innerText"))
        for chart in self.charts():
            self.check_drawn(chart)

    def test_no_network(self):
        self.browser.get_log("performance")
        self.open("two")
        messages = [json.loads(entry["message"])["message"] for entry in self.browser.get_log("performance")]
        asked = [
            message["params"]["request"]["url"] for message in messages
            if message["method"] == "Network.requestWillBeSent"
        ]
        self.assertEqual([url for url in asked if not url.startswith("file:")], [])
        self.assertEqual(len(asked), 1)

    # ---- light, dark, phone, paper ----

    def test_text_stands_out(self):
        for kind in ("two", "mismatch", "run"):
            for scheme in ("light", "dark"):
                self.open(kind, scheme=scheme)
                for contrast, text in self.script("return contrasts();"):
                    self.assertGreaterEqual(contrast, 4.5, f"{scheme}: {text}")
                # What is drawn needs less: WCAG asks 3 of graphics.
                for contrast, text in self.script("return chartContrasts();"):
                    self.assertGreaterEqual(contrast, 3, f"{scheme}: {text}")

    def test_charts_follow_light_and_dark(self):
        self.open("two", scheme="light")
        light = self.charts()
        page = self.script("return background();")
        self.emulate(scheme="dark")
        dark = self.redrawn(light)
        self.assertNotEqual(self.script("return background();"), page)
        for before, after in zip(light, dark):
            for i, dataset in enumerate(before["datasets"]):
                self.assertNotEqual(dataset["colour"], after["datasets"][i]["colour"])
            self.check_drawn(after)

    def redrawn(self, before):
        """The charts once they have another colour: pages hear of a change in their own time."""
        for _ in range(50):
            charts = self.charts()
            if charts[-1]["datasets"][0]["colour"] != before[-1]["datasets"][0]["colour"]:
                return charts
            time.sleep(0.1)
        self.fail("the charts were not drawn again")

    def test_phone(self):
        for kind in ("two", "three", "nasty", "run"):
            self.open(kind, width=360, height=740)
            self.assertEqual(self.script("return document.documentElement.scrollWidth"), 360, kind)
            self.assertEqual(self.script("return beyond(360);"), [], kind)
            for chart in self.charts():
                self.assertLessEqual(chart["width"], 360)
                self.check_drawn(chart)
            if kind != "two":
                continue
            # Ratio and verdict stand in sight without scrolling the table.
            right = self.script("return verdictEdge('Times of the layers, batch 64');")
            self.assertLessEqual(right, 360)

    def test_paper(self):
        self.open("two", scheme="dark")
        self.script("watchPrinting();")
        pdf = base64.b64decode(self.command("Page.printToPDF", printBackground=True)["data"])
        self.assertTrue(pdf.startswith(b"%PDF"))
        seen = self.script("return window.printed;")
        self.assertEqual(seen["closed"], 0)
        self.assertEqual(seen["background"], [255, 255, 255])
        self.assertGreater(self.script("return document.querySelectorAll('details:not([open])').length"), 0)

        # The same page as the printer lays it out: 186 mm of A4 at 96 dots an inch.
        width = 703
        for kind in ("two", "three"):
            self.open(kind, scheme="dark", media="print", width=width, height=1000)
            self.script("dispatchEvent(new Event('beforeprint'));")
            self.assertLessEqual(self.script("return document.documentElement.scrollWidth"), width)
            self.assertEqual(self.script("return beyond(arguments[0]);", width), [], kind)
            self.assertEqual(self.script("return cutTables();"), [], kind)
            self.assertEqual(
                len(self.script("return tableTexts();")["Loss and differences at every step"]), 200)
            for height in self.script("return tableHeights();"):
                self.assertGreater(height, 20)
            charts = self.charts()
            self.assertEqual(len(charts), 11)
            for chart in charts:
                self.assertLessEqual(chart["width"], width)
                self.assertLessEqual(chart["height"], 900)  # a page
                self.check_drawn(chart)
            self.check_log()


def alike(one, other):
    """Whether two colours are one: thin lines mix a little with what lies behind."""
    parts = zip(one.split(","), other.split(","))
    return all(abs(int(a) - int(b)) <= 24 for a, b in parts)


def position(axis, value):
    """The pixel of a value on an axis."""
    if axis["type"] == "logarithmic":
        value, low, high = (math.log10(number) for number in (value, axis["min"], axis["max"]))
    else:
        low, high = axis["min"], axis["max"]
    return axis["from"] + (value - low) / (high - low) * (axis["to"] - axis["from"])


if __name__ == "__main__":
    WRITE_REPORT = sys.argv[1]
    browser.main(sys.argv[2:])
