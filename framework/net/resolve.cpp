#include "net/resolve.h"

#include <algorithm>
#include <map>

#include "layers/add/add.h"
#include "layers/layers.h"
#include "measure/check/layer_data.h"
#include "net/choose.h"
#include "net/fuse.h"

namespace duet {
namespace {

bool needs_gradients(const std::vector<InputSource>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const InputSource& input) { return input.gradient; });
}

// The batch as a network of that arithmetic reads it. A double reference stays in double, and
// boxes, whose edges bfloat16 would move by pixels, in float32.
std::vector<BatchField> stored(std::vector<BatchField> fields, Math math) {
  for (BatchField& field : fields) {
    if (field.kind == FieldKind::kBoxes) continue;
    if (field.desc.dtype == DType::kFloat32) field.desc.dtype = storage_of(math);
  }
  return fields;
}

// Walks the layers with the tensors that flow through them.
class Resolver {
 public:
  Resolver(const NetSpec& spec, const std::vector<BatchField>& fields, ConfigErrors& errors,
           bool training, const std::vector<std::string>& gradients_of)
      : spec_(spec),
        errors_(errors),
        training_(training),
        gradients_of_(gradients_of),
        fields_(stored(fields, spec.math)),
        sources_(spec.layers.size()) {}

  std::vector<ResolvedLayer> run() {
    if (!knows_fields()) return {};
    for (size_t i = 0; i < spec_.layers.size();) {
      std::vector<FusedBlock> hindered;
      size_t parts = spec_.fuse ? add_block(i, &hindered) : 0;
      if (parts == 0) {
        const LayerSpec& layer = spec_.layers[i];
        if (layer.layer->takes_labels()) check_classes(layer);
        if (names_block_only(layer, hindered)) return {};
        if (!add(layer, nullptr)) return {};  // the shapes after it are unknown
        parts = 1;
      }
      if (!hindered.empty()) {
        result_.back().unfused = hindered[0].spec.name + ": " + hindered[0].hindrance;
      }
      i += parts;
      sources_[i - 1] = last_output();
    }
    if (!drop_useless_gradients() || !trains_any()) return {};
    return with_splits();
  }

 private:
  // A gradient begins at a loss, or without losses at the end (net/prediction.h). Layers that no
  // loss depends on, as only metrics read them or losses as constants, run forward alone. Returns
  // false if one has weights and is to be trained.
  bool drop_useless_gradients() {
    bool all_trained = true;
    std::vector<bool> reached(result_.size());
    const bool losses = std::any_of(result_.begin(), result_.end(), [](const ResolvedLayer& layer) {
      return layer.layer->is_loss();
    });
    if (!losses && !reached.empty()) reached.back() = true;
    for (size_t i = result_.size(); i-- > 0;) {
      ResolvedLayer& layer = result_[i];
      if (layer.layer->is_loss() || reached[i]) {
        for (const InputSource& input : layer.inputs) {
          if (input.gradient && input.layer != kField) {
            reached[static_cast<size_t>(input.layer)] = true;
          }
        }
        continue;
      }
      if (is_trained(layer) && training_) {
        report_untrained(layer);
        all_trained = false;
      }
      if (layer.layer->parameters().empty() && !needs_gradients(layer.inputs)) continue;
      for (InputSource& input : layer.inputs) input.gradient = false;
      std::erase_if(layer.passes, [](const auto& choice) { return choice.pass != Pass::kForward; });
    }
    return all_trained;
  }

  // Reports that nothing is left to be trained.
  bool trains_any() {
    const auto frozen = std::find_if(result_.begin(), result_.end(), [](const auto& layer) {
      return layer.frozen && !layer.layer->parameters().empty();
    });
    if (!training_ || frozen == result_.end() ||
        std::any_of(result_.begin(), result_.end(), is_trained)) {
      return true;
    }
    const auto written = std::find_if(
        spec_.layers.begin(), spec_.layers.end(),
        [&](const LayerSpec& each) { return each.parameter_prefix == frozen->parameter_prefix; });
    errors_.add(written->mark,
                label_of(frozen->name, *frozen->layer) +
                    ": is frozen, and so is every layer with weights: there is nothing to train; "
                    "delete 'frozen' where a layer is to be trained");
    return false;
  }

  void report_untrained(const ResolvedLayer& layer) {
    const auto written = std::find_if(
        spec_.layers.begin(), spec_.layers.end(),
        [&](const LayerSpec& each) { return each.parameter_prefix == layer.parameter_prefix; });
    errors_.add(written->mark,
                label_of(layer.name, *layer.layer) +
                    ": no loss passes a gradient to its weights, as only metrics, or "
                    "losses as their targets, read what becomes of its output; let a "
                    "loss read it, or delete it");
  }

  // Reports fields that this data set has not, and those of which a loss or metric reads another
  // kind.
  bool knows_fields() {
    bool known = true;
    for (const LayerSpec& layer : spec_.layers) {
      const std::vector<std::string_view> defaults = layer.layer->fields();
      for (size_t i = 0; i < layer.inputs.size(); ++i) {
        const LayerInput& input = layer.inputs[i];
        if (input.layer != kField) continue;
        const std::string_view place = i > 0 && i <= defaults.size() ? defaults[i - 1] : "";
        const BatchField* const field = find_field(input.field);
        if (field && can_stand_for(place, field->kind)) continue;
        known = false;
        const std::string what =
            field ? "reads the field " + duet::text_of(*field) + " in place of '" +
                        std::string(place) + "', which it cannot be; the data set has "
                  : "the data set has no field '" + input.field + "'" +
                        (input.field == kLabelsField ? " of classes" : "") + "; it has ";
        errors_.add(layer.mark,
                    label_of(layer.name, *layer.layer) + ": " + what + texts_of_fields());
      }
    }
    return known;
  }

  std::string texts_of_fields() const {
    std::vector<std::string> texts;
    for (const BatchField& field : fields_) texts.push_back(duet::text_of(field));
    return join(texts);
  }

  BatchField* find_field(const std::string& name) {
    for (BatchField& field : fields_) {
      if (field.name == name) return &field;
    }
    return nullptr;
  }

  bool has_id(const Layer& layer) const {
    const auto list = layer.implementations();
    return std::any_of(list.begin(), list.end(),
                       [&](const ImplInfo& info) { return info.id == spec_.backend.name; });
  }

  // Adds the longest block at layer `i` that can run, and returns how many layers it replaces; 0 if
  // there is none.
  size_t add_block(size_t i, std::vector<FusedBlock>* hindered) {
    for (FusedBlock& block : blocks_at(spec_, i)) {
      if (block.hindrance.empty()) block.hindrance = hidden_id(block, i);
      if (block.hindrance.empty() && add(block.spec, &block.hindrance)) {
        return block.parts;
      }
      if (!block.hindrance.empty()) hindered->push_back(std::move(block));
    }
    return 0;
  }

  // Where a layer that runs by itself names what only a block has: a mistake.
  bool names_block_only(const LayerSpec& spec, const std::vector<FusedBlock>& hindered) {
    const std::string name = spec.backend ? unknown_name(*spec.layer, *spec.backend) : "";
    if (name.empty()) return false;
    std::string blocks;
    for (const LayerType* block : block_types_of(spec.layer->type())) {
      const auto list = block->implementations();
      const auto is_named = [&](const ImplInfo& info) { return info.id == name; };
      if (std::none_of(list.begin(), list.end(), is_named)) continue;
      blocks += (blocks.empty() ? "" : " and ") + std::string(block->name);
    }
    errors_.add(spec.backend->mark, label_of(spec.name, *spec.layer) + ": '" + name +
                                        "' is an implementation of " + blocks +
                                        " alone, and the layer is not fused" +
                                        (hindered.empty() ? "" : ": " + hindered[0].hindrance));
    return true;
  }

  // Where the id asked for is one of the block's parts', and not the block's, it would not run: a
  // hindrance to fusing.
  std::string hidden_id(const FusedBlock& block, size_t first) const {
    if (family_from(spec_.backend.name) || has_id(*block.spec.layer)) return "";
    for (size_t i = first; i < first + block.parts; ++i) {
      if (has_id(*spec_.layers[i].layer)) return "the block has no " + spec_.backend.name;
    }
    return "";
  }

  // Why a block cannot run as `chosen` says, or "". What its first layer names is that layer's choice:
  // the others stay in their family, and a pass must go on with the state of those that it does not
  // name, else it is not the only thing to change.
  std::string hindrance_of(const LayerSpec& spec, const ResolvedLayer& block,
                           const Choice& chosen) const {
    const Layer& layer = *block.layer;
    if (!chosen.problems.empty()) {
      return "no implementation of " + std::string(layer.type()) +
             " that is asked for can run it here";
    }
    if (!spec.backend) return "";
    LayerSpec plain = spec;
    plain.backend.reset();
    const std::vector<PassChoice> usual =
        choose(spec_, plain, layer, needs_gradients(block.inputs)).passes;
    const auto family = [](const std::string& id) { return id.substr(0, id.find('_')); };
    const auto is_only = [&](const PassChoice& choice) {
      return choice.id == block.passes[0].id && family(choice.id) == family(usual[0].id);
    };
    if (!usual.empty() && std::all_of(block.passes.begin(), block.passes.end(), is_only)) return "";
    for (size_t i = 0; i < block.passes.size(); ++i) {
      const PassChoice& choice = block.passes[i];
      if (i < usual.size() && share_state(layer, choice.id, usual[i].id)) continue;
      return std::string(to_string(choice.pass)) + " is to run by " + choice.id +
             ", which keeps another state for the backward passes than " +
             (i < usual.size() ? usual[i].id : "the others");
    }
    return "";
  }

  const TensorDesc& desc_of(const InputSource& source) {
    if (source.layer == kField) return find_field(source.field)->desc;
    return result_[static_cast<size_t>(source.layer)]
        .layer->outputs()[static_cast<size_t>(source.output)];
  }

  InputSource last_output() const {
    const ResolvedLayer& last = result_.back();
    return {static_cast<int>(result_.size()) - 1, 0,
            is_trained(last) || needs_gradients(last.inputs)};
  }

  std::string text_of(const InputSource& source) {
    const std::string from = source.layer == kField
                                 ? "the data"
                                 : "layer " + result_[static_cast<size_t>(source.layer)].name;
    return desc_of(source).shape.to_string() + " comes from " + from;
  }

  // Returns false if the layer does not fit. A fused block is tentative: it then leaves no trace
  // but `hindrance`.
  bool add(const LayerSpec& spec, std::string* hindrance) {
    const size_t before = result_.size();
    const std::vector<BatchField> fields = fields_;
    if (add_with_reorders(spec, hindrance)) return true;
    result_.erase(result_.begin() + static_cast<std::ptrdiff_t>(before), result_.end());
    fields_ = fields;
    return false;
  }

  bool add_with_reorders(const LayerSpec& spec, std::string* hindrance) {
    ResolvedLayer resolved{spec.name, spec.parameter_prefix, spec.layer->clone(), {}};
    resolved.frozen = spec.frozen && training_;
    resolved.features = spec.features;
    Layer& layer = *resolved.layer;
    const Layout wanted =
        layer.is_view(Pass::kForward) ? Layout::kNCHW : spec.layout.value_or(spec_.layout);
    std::vector<TensorDesc> inputs;
    std::string origins;
    for (const LayerInput& input : spec.inputs) {
      const InputSource read = source_of(input);
      const bool whole_numbers =
          input.layer == kField && !is_float(find_field(input.field)->desc.dtype);
      if (!whole_numbers) origins += (origins.empty() ? "its input " : ", ") + text_of(read);
      auto source = in_layout(read, wanted, spec);
      if (!source) return false;
      source->gradient &= layer.has_gradient(resolved.inputs.size());
      resolved.inputs.push_back(*source);
      inputs.push_back(desc_of(*source));
      if (inputs.back().shape.rank() == 4) inputs.back().layout = wanted;  // the same bytes
    }
    resolved.loss_weight = spec.loss_weight;
    try {
      layer.bind(inputs, {.math = spec_.math,
                          .seed = spec_.seed,
                          .stream = spec.stream,
                          .evaluated = needs_gradients(resolved.inputs) &&
                                       (resolved.frozen || !gradients_of_.empty())});
      if (const auto reason = layer.untrainable(); reason && training_ && !resolved.frozen) {
        throw ShapeError(*reason);
      }
      check_shared_weights(resolved);
      if (needs_gradient_of_weights(resolved)) {
        if (hindrance) {
          *hindrance = "it is frozen, and the block's backward_data needs its backward_filter";
          return false;
        }
        throw ShapeError(
            "is frozen, and its backward_data needs its backward_filter; write its parts as layers "
            "of their own");
      }
      if (layer.outputs().size() > 1 && !layer.is_end()) {
        throw ShapeError(
            "is inserted automatically; remove it and list its input under 'inputs' of each "
            "reader");
      }
    } catch (const ShapeError& e) {
      if (!hindrance) {
        errors_.add(spec.mark, label_of(spec.name, layer) + ": " + e.what() + " (" + origins + ")");
      }
      return false;
    }
    const Choice chosen = choose(spec_, spec, layer, needs_gradients(resolved.inputs));
    resolved.passes = chosen.passes;
    if (hindrance) {
      *hindrance = hindrance_of(spec, resolved, chosen);
      if (!hindrance->empty()) return false;
    }
    report(chosen);
    check_state(spec, resolved);
    result_.push_back(std::move(resolved));
    return true;
  }

  // A block's passes hand each other what they compute (Layer::chooses_per_pass).
  static bool needs_gradient_of_weights(const ResolvedLayer& layer) {
    return layer.frozen && layer.layer->passes().size() == 3 && !layer.layer->chooses_per_pass() &&
           needs_gradients(layer.inputs);
  }

  // All layers of one name in a features network have the same weights. Throws ShapeError.
  void check_shared_weights(const ResolvedLayer& layer) const {
    if (layer.features.empty()) return;
    for (const ResolvedLayer& other : result_) {
      if (other.parameter_prefix != layer.parameter_prefix) continue;
      for (const ParameterSpec& here : layer.layer->parameters()) {
        for (const ParameterSpec& there : other.layer->parameters()) {
          if (here.name != there.name || here.desc == there.desc) continue;
          throw ShapeError("shares its " + here.name + " with layer " + other.name +
                           ", where it is " + there.desc.to_string() + ", but here it would be " +
                           here.desc.to_string() +
                           "; apply a features network to inputs of one size and layout");
        }
      }
    }
  }

  void report(const Choice& chosen) {
    for (const auto& problem : chosen.problems) {
      if (problem.unsupported) {
        errors_.add_unsupported(problem.mark, problem.text);
      } else {
        errors_.add(problem.mark, problem.text);
      }
    }
  }

  // Passes that were named one by one.
  void check_state(const LayerSpec& spec, const ResolvedLayer& resolved) {
    const std::vector<PassChoice>& choices = resolved.passes;
    for (const PassChoice& choice : choices) {
      if (share_state(*resolved.layer, choices[0].id, choice.id)) continue;
      errors_.add(spec.backend ? spec.backend->mark : spec.mark,
                  label_of(spec.name, *resolved.layer) + ": " +
                      std::string(to_string(choice.pass)) + " by '" + choice.id +
                      "' cannot go on with what '" + choices[0].id +
                      "' keeps for it in forward; name implementations of one family");
      return;
    }
  }

  // The same value in the layout that the layer `reader` wants: by a reorder layer, unless there is
  // one already or the bytes are the same. Images are gathered in the layout that is wanted first.
  std::optional<InputSource> in_layout(const InputSource& source, Layout wanted,
                                       const LayerSpec& reader) {
    const TensorDesc& desc = desc_of(source);
    const Shape& s = desc.shape;
    if (s.rank() != 4 || desc.layout == wanted || s[1] == 1 || s[2] * s[3] == 1) return source;
    if (!is_float(desc.dtype)) return source;
    if (source.layer == kField && find_field(source.field)->kind == FieldKind::kImages &&
        !is_read(source.field)) {
      find_field(source.field)->desc.layout = wanted;
      return source;
    }
    for (size_t i = 0; i < result_.size(); ++i) {
      const ResolvedLayer& each = result_[i];
      if (each.layer->type() == "reorder" && each.inputs[0] == source &&
          each.layer->outputs()[0].layout == wanted) {
        return InputSource{static_cast<int>(i), 0, source.gradient};
      }
    }
    if (!insert("reorder", "reorder_" + reader.name, {{"to", std::string(to_string(wanted))}},
                source, desc, reader.mark, &result_)) {
      return {};
    }
    result_.back().features = reader.features;
    return last_output();
  }

  bool is_read(const std::string& field) const {
    for (const ResolvedLayer& layer : result_) {
      for (const InputSource& input : layer.inputs) {
        if (input.layer == kField && input.field == field) return true;
      }
    }
    return false;
  }

  InputSource source_of(const LayerInput& input) const {
    if (input.layer == kField) {
      const auto wanted = std::find(gradients_of_.begin(), gradients_of_.end(), input.field);
      return {.gradient = wanted != gradients_of_.end(), .field = input.field};
    }
    return sources_[static_cast<size_t>(input.layer)];
  }

  // Appends a layer that nobody wrote, over one input. Returns false if nothing can run it.
  bool insert(std::string_view type, const std::string& name,
              const std::vector<std::pair<std::string, std::string>>& values,
              const InputSource& source, const TensorDesc& input, Mark mark,
              std::vector<ResolvedLayer>* layers) {
    ConfigNode keys = ConfigNode::map();
    for (const auto& [key, value] : values) keys.at_or_add(key) = ConfigNode::of(value);
    ConfigReader reader(keys, name, errors_);
    const LayerSpec spec{.name = name, .mark = mark};
    ResolvedLayer inserted{name, name, find_layer_type(type)->make(reader), {}, {source}};
    inserted.layer->bind({input}, {.math = spec_.math});
    const Choice chosen = choose(spec_, spec, *inserted.layer, source.gradient);
    inserted.passes = chosen.passes;
    report(chosen);
    layers->push_back(std::move(inserted));
    return chosen.problems.empty();
  }

  // The same sum, with an output for each reader. Nothing if an implementation that was chosen
  // cannot do that.
  std::shared_ptr<Layer> for_readers(const ResolvedLayer& sum, int readers) {
    ConfigNode keys = ConfigNode::map();
    keys.at_or_add("outputs") = ConfigNode::of(std::to_string(readers));
    ConfigErrors none("");
    ConfigReader reader(keys, sum.name, none);
    std::shared_ptr<Layer> layer = find_layer_type(sum.layer->type())->make(reader);
    if (!none.empty()) return nullptr;
    layer->bind(sum.layer->inputs(), sum.layer->options());
    for (const PassChoice& choice : sum.passes) {
      std::vector<std::string> ids = {choice.id};
      if (choice.id == kAuto) ids.clear();
      for (const AutoCandidate& candidate : choice.candidates) ids.push_back(candidate.id);
      for (const std::string& id : ids) {
        if (layer->unsupported(id, choice.pass)) return nullptr;
      }
    }
    return layer;
  }

  void report_readers(const std::string& field, int count) {
    errors_.add({}, "the field '" + field + "' is read " + std::to_string(count) +
                        " times; at most " + std::to_string(kMostReaders) +
                        " are possible where its gradient is wanted");
  }

  // More layers than can read the output of layer `number` do: `count`.
  void report_readers(int number, int count) {
    const auto find_written = [&] {
      return std::find_if(sources_.begin(), sources_.end(),
                          [&](const InputSource& source) { return source.layer == number; });
    };
    auto written = find_written();
    for (; written == sources_.end(); written = find_written()) {
      // An inserted layer has the value of what it reads.
      const InputSource& read = result_[static_cast<size_t>(number)].inputs[0];
      if (read.layer == kField) return report_readers(read.field, count);
      number = read.layer;
    }
    const auto index = written - sources_.begin();
    const LayerSpec& spec = spec_.layers[static_cast<size_t>(index)];
    std::vector<std::string> readers;
    for (const LayerSpec& layer : spec_.layers) {
      const auto reads =
          std::count(layer.inputs.begin(), layer.inputs.end(), LayerInput{static_cast<int>(index)});
      readers.insert(readers.end(), static_cast<size_t>(reads), layer.name);
    }
    const std::string times = std::to_string(readers.size());
    readers.resize(std::min<size_t>(readers.size(), 3));
    errors_.add(spec.mark, label_of(spec.name, *spec.layer) + ": its output is read " + times +
                               " times (by " + join(readers) + ", ...); at most " +
                               std::to_string(kMostReaders) +
                               " are possible: name it in 'inputs' of fewer layers");
  }

  // The layers with a split layer behind each whose gradient comes from several readers, unless it
  // can sum them itself.
  std::vector<ResolvedLayer> with_splits() {
    std::vector<int> readers(result_.size());
    std::map<std::string, int> readers_of_fields;
    for (const ResolvedLayer& layer : result_) {
      for (const InputSource& source : layer.inputs) {
        if (!source.gradient) continue;
        ++(source.layer == kField ? readers_of_fields[source.field]
                                  : readers[static_cast<size_t>(source.layer)]);
      }
    }
    bool too_many = false;
    for (size_t i = 0; i < readers.size(); ++i) {
      if (readers[i] <= kMostReaders) continue;
      report_readers(static_cast<int>(i), readers[i]);
      too_many = true;
    }
    for (const auto& [field, count] : readers_of_fields) {
      if (count <= kMostReaders) continue;
      report_readers(field, count);
      too_many = true;
    }
    if (too_many) return {};
    std::vector<ResolvedLayer> all;
    std::map<std::string, InputSource> split_fields;  // the next output to be read of each
    for (const auto& [field, count] : readers_of_fields) {
      if (count == 1) continue;
      insert("split", "split_" + field, {{"outputs", std::to_string(count)}},
             {.gradient = true, .field = field}, find_field(field)->desc, {}, &all);
      split_fields[field] = {static_cast<int>(all.size()) - 1, 0, true};
    }
    std::vector<InputSource> places(result_.size());  // the next output to be read of each
    for (size_t i = 0; i < result_.size(); ++i) {
      std::shared_ptr<Layer> sum;
      if (readers[i] > 1 && result_[i].layer->is_sum()) sum = for_readers(result_[i], readers[i]);
      if (sum) result_[i].layer = sum;
      const bool split = readers[i] > 1 && !sum;
      for (InputSource& source : result_[i].inputs) {
        if (const auto split_field = split_fields.find(source.field);
            split_field != split_fields.end()) {
          source = split_field->second;
          ++split_field->second.output;
          continue;
        }
        if (source.layer == kField) continue;
        const auto from = static_cast<size_t>(source.layer);
        source.layer = places[from].layer;
        source.output = source.gradient && readers[from] > 1 ? places[from].output++ : 0;
      }
      all.push_back(std::move(result_[i]));
      if (split) {
        const ResolvedLayer& layer = all.back();
        const TensorDesc value = layer.layer->outputs()[0];
        const InputSource source{static_cast<int>(all.size()) - 1, 0, true};
        insert("split", "split_" + layer.name, {{"outputs", std::to_string(readers[i])}}, source,
               value, {}, &all);
        all.back().features = result_[i].features;
      }
      places[i].layer = static_cast<int>(all.size()) - 1;
    }
    return all;
  }

  void check_classes(const LayerSpec& loss) {
    const BatchField* const labels = find_field(loss.inputs.back().field);
    if (!labels || !can_stand_for(kLabelsField, labels->kind)) return;
    const int64_t classes = labels->classes;
    // The last may be one that does not count.
    const int64_t needed = classes - (loss.layer->ignored_class() == classes - 1 ? 1 : 0);
    const InputSource source = source_of(loss.inputs[0]);
    const Shape& shape = desc_of(source).shape;
    if (source.layer == kField || shape.rank() < 2 || shape.rank() > 3 || shape.last() >= needed) {
      return;
    }
    errors_.add(loss.mark, "layer " + loss.name + ": the data has " + std::to_string(classes) +
                               " classes (labels 0 to " + std::to_string(classes - 1) +
                               "), but layer " + result_[static_cast<size_t>(source.layer)].name +
                               " has only " + std::to_string(shape.last()) + " outputs");
  }

  const NetSpec& spec_;
  ConfigErrors& errors_;
  const bool training_;
  const std::vector<std::string>& gradients_of_;
  std::vector<BatchField> fields_;
  std::vector<InputSource> sources_;  // the output of each layer of the spec
  std::vector<ResolvedLayer> result_;
};

}  // namespace

bool is_trained(const ResolvedLayer& layer) {
  const std::vector<ParameterSpec>& parameters = layer.layer->parameters();
  return !layer.frozen && std::any_of(parameters.begin(), parameters.end(),
                                      [](const ParameterSpec& p) { return p.trained(); });
}

bool runs(const ResolvedLayer& layer, Pass pass) {
  if (layer.layer->is_view(pass)) return false;
  if (pass == Pass::kForward) return true;
  if (pass == Pass::kBackwardFilter) return !layer.frozen;
  return (pass == Pass::kBackward && is_trained(layer)) || needs_gradients(layer.inputs);
}

std::vector<InputSource> named_inputs(const ResolvedLayer& layer) {
  const std::vector<std::string_view> fields = layer.layer->fields();
  std::vector<InputSource> named = layer.inputs;
  while (named.size() > 1 && named.size() - 2 < fields.size() && named.back().layer == kField &&
         named.back().field == fields[named.size() - 2]) {
    named.pop_back();
  }
  return named;
}

std::vector<ResolvedLayer> resolve(const NetSpec& spec, const std::vector<BatchField>& fields,
                                   ConfigErrors& errors, bool training,
                                   const std::vector<std::string>& gradients_of) {
  if (device_of(spec) == Device::kGpu && !built_with_cuda()) {
    errors.add_unsupported(spec.backend.mark,
                           "backend '" + spec.backend.name + "': " + gpu_missing_reason());
    return {};
  }
  auto layers = Resolver(spec, fields, errors, training, gradients_of).run();
  for (ResolvedLayer& layer : layers) layer.hands_on = spec.fuse;
  return layers;
}

std::vector<ResolvedLayer> without_losses(std::vector<ResolvedLayer> layers) {
  const int reader = result_reader(layers);
  const int result =
      reader == kField ? kField : layers[static_cast<size_t>(reader)].inputs[0].layer;
  if (result != kField) layers[static_cast<size_t>(result)].is_result = true;
  const std::vector<bool> leads = leading_to(layers, reader);
  std::vector<ResolvedLayer> left;
  std::vector<int> numbers;  // of `layers` in `left`
  for (size_t i = 0; i < layers.size(); ++i) {
    numbers.push_back(static_cast<int>(left.size()));
    if (result == kField ? layers[i].layer->is_end() : !leads[i]) continue;
    for (InputSource& input : layers[i].inputs) {
      if (input.layer != kField) input.layer = numbers[static_cast<size_t>(input.layer)];
    }
    left.push_back(std::move(layers[i]));
  }
  return left;
}

}  // namespace duet
