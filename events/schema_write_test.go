package events

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	fields "millrace/internal/form"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/node"
	"millrace/task/placement"
	"millrace/task/queue"
	"millrace/task/value"
)

// A schema is derived from the form of a fact: its fields and their types. schema/words.json adds
// what the form does not tell: the purpose of a field, and which values of its type are valid. The
// other files in schema/ are generated from both.

// Schema returns the JSON Schema (draft 2020-12) of a type of fact. It refers to fact.json, which
// Schema("fact") returns and which holds the parts that the types share.
func Schema(t Type) ([]byte, bool) {
	if t == "fact" {
		return schemaText(sharedSchema()), true
	}
	f, ok := formByType[t]
	if !ok {
		return nil, false
	}
	return schemaText(factSchema(f)), true
}

func schemaText(doc members) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	if err := e.Encode(doc); err != nil {
		panic(err) // it consists of text and names
	}
	return b.Bytes()
}

// sharedTypes are the types with their own schema in fact.json.
var sharedTypes = map[reflect.Type]string{
	reflect.TypeFor[time.Time](): "time", reflect.TypeFor[value.Duration](): "duration", reflect.TypeFor[task.ID](): "ulid",
	reflect.TypeFor[placement.Route](): "route", reflect.TypeFor[node.ID](): "name",
	reflect.TypeFor[job.Step](): "step", reflect.TypeFor[task.By](): "by", reflect.TypeFor[limit.Breaker](): "breaker", reflect.TypeFor[job.Unique](): "unique", reflect.TypeFor[task.Known](): "known", reflect.TypeFor[task.Usage](): "usage", reflect.TypeFor[job.Spec](): "spec",
	reflect.TypeFor[task.Task](): "folded_task", reflect.TypeFor[node.Node](): "folded_node", reflect.TypeFor[queue.Queue](): "folded_queue",
	reflect.TypeFor[task.Step](): "function_step", reflect.TypeFor[task.Park](): "park",
	reflect.TypeFor[task.Ledger](): "ledger", reflect.TypeFor[placement.Asked](): "asked", reflect.TypeFor[task.Needs](): "needs", reflect.TypeFor[task.Children](): "children",
}

//go:embed schema/words.json
var wordsText []byte

// vocabulary is the part of the schemas that forms do not tell.
type vocabulary struct {
	// Shared are the schemas in fact.json that are not derived from a type.
	Shared map[string]json.RawMessage `json:"shared"`
	// Words are, by type of fact or shared schema, and by path of a field ("" for the whole, "*"
	// for fields with the same meaning in several types): a description, or an object of schema
	// keywords that add to those of the type, or replace them.
	Words map[string]map[string]json.RawMessage `json:"words"`
}

var words = sync.OnceValue(func() (v vocabulary) {
	if err := json.Unmarshal(wordsText, &v); err != nil {
		panic("events: schema/words.json: " + err.Error())
	}
	return v
})

// factSchema is the schema of a type of fact.
func factSchema(f *form) members {
	s := scribe{of: string(f.typ), shared: "fact.json"}
	is := members{
		{"type", members{{"const", f.typ}, {"description", "The type of the fact; the header Mr-Type repeats it."}}},
		{"v", s.ref("v")}, {"id", s.ref("id")}, {"at", s.ref("at")},
	}
	required := []string{"type", "id", "at"}
	if about := f.about.name(); about != "" {
		is, required = append(is, member{about, s.about(about)}), append(required, about)
	}
	for _, name := range []string{"actor", "cause", "corr", "repeats", "by"} {
		is = append(is, member{name, s.ref(name)})
	}
	is = append(is, s.properties("", f.event)...)
	return append(members{{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", f.typ}},
		s.add(members{{"type", "object"}, {"properties", is}, {"required", required}, {"additionalProperties", true}}, "", "")...)
}

// about is the schema of the fact's subject.
func (s *scribe) about(name string) members {
	if said := words().Words[s.of][name]; len(said) > 0 {
		return membersOf(said)
	}
	switch name {
	case "task":
		return s.ref(name)
	case "def":
		return append(s.ref(name), member{"description", "The definition that the fact is about."})
	}
	return append(s.ref(name), member{"description", "The " + name + " that the fact is about."})
}

// sharedSchema is fact.json.
func sharedSchema() members {
	all := map[string]any{}
	for name, text := range words().Shared {
		all[name] = membersOf(text)
	}
	for t, name := range sharedTypes {
		if _, said := words().Shared[name]; !said {
			s := scribe{of: name}
			all[name] = s.add(s.object("", t), "", "")
		}
	}
	var defs members
	for _, name := range slices.Sorted(maps.Keys(all)) {
		defs = append(defs, member{name, all[name]})
	}
	return members{
		{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "fact"},
		{"description", "What the types of facts share: one flat JSON object, of which unknown fields are kept."}, {"$defs", defs},
	}
}

// scribe writes the schema of a type.
type scribe struct {
	of     string // the type whose words apply
	shared string // the file with the shared schemas, "" for the same file
}

func (s *scribe) ref(name string) members { return members{{"$ref", s.shared + "#/$defs/" + name}} }

func (s *scribe) object(path string, t reflect.Type) members {
	return members{{"type", "object"}, {"properties", s.properties(path, t)}, {"additionalProperties", true}}
}

func (s *scribe) properties(path string, t reflect.Type) members {
	all := members{}
	for _, f := range fields.Fields(t) {
		at := strings.TrimPrefix(path+"."+f.Name, ".")
		all = append(all, member{f.Name, s.value(at, f.Name, f.Type)})
	}
	return all
}

// value is the schema of a field, or of an element of a list or table, which has no name.
func (s *scribe) value(path, name string, t reflect.Type) members {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return s.add(s.plain(path, t), path, name)
}

// plain is the schema of the type alone.
func (s *scribe) plain(path string, t reflect.Type) members {
	if shared, ok := sharedTypes[t]; ok {
		return s.ref(shared)
	}
	if t == reflect.TypeFor[json.RawMessage]() {
		return members{}
	}
	if p := reflect.PointerTo(t); p.Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return members{} // as it likes
	}
	if fields.Spelled(t) {
		return members{{"type", "string"}}
	}
	switch t.Kind() {
	case reflect.Bool:
		return members{{"type", "boolean"}}
	case reflect.Float64:
		return members{{"type", "number"}}
	case reflect.String:
		return members{{"type", "string"}}
	case reflect.Slice:
		return members{{"type", "array"}, {"items", s.value(path+"[]", "", t.Elem())}}
	case reflect.Map:
		return members{{"type", "object"}, {"additionalProperties", s.value(path+"{}", "", t.Elem())}}
	case reflect.Struct:
		return s.object(path, t)
	}
	return members{{"type", "integer"}}
}

// add adds the words of the path to a schema. Without any, the words of the shared schema for that
// name apply.
func (s *scribe) add(is members, path, name string) members {
	said := words().Words[s.of][path]
	if len(said) == 0 && s.shared != "" {
		said = words().Words["*"][path]
	}
	if len(said) == 0 && s.of == "spec" && name != "" {
		said = ofJobFile(path)
	}
	if len(said) == 0 {
		if _, shared := words().Shared[name]; shared {
			return s.ref(name)
		}
		return is
	}
	var text string
	if json.Unmarshal(said, &text) == nil {
		return append(members{{"description", text}}, is...)
	}
	more := membersOf(said)
	is = slices.DeleteFunc(is, func(m member) bool {
		return more.has(m.key) || m.key == "$ref" && more.has("type") || m.key == "type" && more.has("$ref")
	})
	return append(more, is...)
}

// ofJobFile is the description of a field of a spec in the schema of job files; nil if that has
// none.
func ofJobFile(path string) json.RawMessage {
	root := jobSchema()
	at := root
	for _, name := range strings.Split(path, ".") {
		if at = within(root, at, name); at == nil {
			return nil
		}
	}
	text, _ := at["description"].(string)
	if text == "" {
		return nil
	}
	said, _ := json.Marshal(text)
	return said
}

var jobSchema = sync.OnceValue(func() (root map[string]any) {
	if err := json.Unmarshal(job.Schema(), &root); err != nil {
		panic("events: the schema of job files: " + err.Error())
	}
	return root
})

// within is the schema of a field of the objects that a schema describes; nil if they have none.
func within(root, at map[string]any, name string) map[string]any {
	if ref, ok := at["$ref"].(string); ok {
		at = root
		for _, step := range strings.Split(strings.TrimPrefix(ref, "#/"), "/") {
			at, _ = at[step].(map[string]any)
		}
	}
	properties, _ := at["properties"].(map[string]any)
	if is, ok := properties[name].(map[string]any); ok {
		return is
	}
	for _, forms := range []string{"oneOf", "anyOf"} {
		all, _ := at[forms].([]any)
		for _, form := range all {
			form, _ := form.(map[string]any)
			if is := within(root, form, name); is != nil {
				return is
			}
		}
	}
	return nil
}

// members are the members of a JSON object, in order.
type members []member

type member struct {
	key   string
	value any
}

func (m members) has(key string) bool {
	return slices.ContainsFunc(m, func(is member) bool { return is.key == key })
}

// MarshalJSON writes the object.
func (m members) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, is := range m {
		if i > 0 {
			b = append(b, ',')
		}
		var value bytes.Buffer
		e := json.NewEncoder(&value)
		e.SetEscapeHTML(false)
		if err := e.Encode(is.value); err != nil {
			return nil, err
		}
		b = append(fields.AppendString(b, is.key), ':')
		b = append(b, value.Bytes()...)
	}
	return append(b, '}'), nil
}

// membersOf reads an object.
func membersOf(text json.RawMessage) (all members) {
	d := json.NewDecoder(bytes.NewReader(text))
	_, _ = d.Token() // tests check the words
	for d.More() {
		key, _ := d.Token()
		var value json.RawMessage
		if d.Decode(&value) != nil {
			break
		}
		all = append(all, member{key.(string), value})
	}
	return all
}
