package jobfile

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"maps"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"millrace/internal/form"
	"millrace/internal/testkit"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/value"
)

// The schema of job files, task/job/schema.json, is written from the types of package job and below,
// by the tags that tell the reader how a field is read. words.json adds what they do not tell, by type and field, ""
// for the type as a whole: a description, or keywords of the schema. Keywords that say what a value
// is ($ref, type, oneOf, anyOf, allOf, enum) replace those of the type.

//go:embed words.json
var wordsText []byte

func TestSchemaIsOfTheTypes(t *testing.T) {
	var all struct {
		Head  members                               `json:"head"`
		Words map[string]map[string]json.RawMessage `json:"words"`
		Defs  map[string]json.RawMessage            `json:"defs"`
	}
	if err := json.Unmarshal(wordsText, &all); err != nil {
		t.Fatal(err)
	}
	w := &scribe{t: t, words: all.Words, written: map[string]string{}, used: map[string]bool{}}
	root := slices.Concat(all.Head, w.object(reflect.TypeFor[job.Job](), "#"))
	defs := members{}
	for _, s := range sharedTypes {
		defs = append(defs, member{s.name, w.shared(s.of, "#/$defs/"+s.name)})
	}
	for _, name := range slices.Sorted(maps.Keys(all.Defs)) {
		defs = append(defs, member{name, all.Defs[name]})
	}
	for of, fields := range all.Words {
		for name := range fields {
			if !w.used[of+"."+name] {
				t.Errorf("words.json has words for the field %q of %s, and no type has it", name, of)
			}
		}
	}
	text, err := json.Marshal(append(root, member{"$defs", defs}))
	var want bytes.Buffer
	if err == nil {
		err = json.Indent(&want, text, "", "  ")
	}
	want.WriteByte('\n')
	switch {
	case err != nil:
		t.Fatal(err)
	case *testkit.Update:
		if err := os.WriteFile("../job/schema.json", want.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	case !bytes.Equal(want.Bytes(), job.Schema()):
		t.Error("the schema is not what the types and words.json say: go test ./task/jobfile -run TestSchemaIsOfTheTypes -update")
	}
}

// sharedTypes are the types with a schema of their own in $defs.
var sharedTypes = []struct {
	of   reflect.Type
	name string
}{
	{reflect.TypeFor[[]job.NamedSchedule](), "schedules"}, {reflect.TypeFor[param.Param](), "param"}, {reflect.TypeFor[job.Step](), "step"},
	{reflect.TypeFor[limit.Concurrency](), "concurrency"}, {reflect.TypeFor[limit.PerNode](), "per_node"}, {reflect.TypeFor[limit.Budget](), "budget"}, {reflect.TypeFor[limit.Rate](), "rate"},
}

// scribe writes the schemas of types.
type scribe struct {
	t       *testing.T
	words   map[string]map[string]json.RawMessage
	written map[string]string // where a field stands, by its type and name
	used    map[string]bool   // the words that were used
}

// object is the schema of a struct, at a place in the document.
func (s *scribe) object(t reflect.Type, at string) members {
	is := members{{"type", "object"}, {"additionalProperties", false}}
	fields := members{}
	for _, f := range fieldsOf(t) {
		of := t
		if n := len(f.Index); n > 1 {
			of = t.FieldByIndex(f.Index[:n-1]).Type
		}
		key, here := of.Name()+"."+f.Name, at+"/properties/"+f.Name
		if there, ok := s.written[key]; ok {
			fields = append(fields, member{f.Name, members{{"$ref", there}}})
			continue
		}
		s.written[key] = here
		is := s.add(of.Name(), f.Name, s.field(f, here))
		if is.find("description") < 0 {
			s.t.Errorf("words.json does not describe %s.%s", of.Name(), f.Name)
		}
		fields = append(fields, member{f.Name, is})
	}
	is = s.add(t.Name(), "", is)
	if t == reflect.TypeFor[job.Job]() {
		is = withoutRules(is)
	}
	return append(is, member{"properties", fields})
}

// withoutRules adds all rules to what a job with steps does not have.
func withoutRules(is members) members {
	i := is.find("oneOf")
	var forms []map[string]json.RawMessage
	value.Assert(i >= 0 && json.Unmarshal(is[i].value.(json.RawMessage), &forms) == nil, "words.json: a job has no list of forms")
	for _, form := range forms {
		var not members
		if form["properties"] == nil {
			continue
		}
		value.Assert(json.Unmarshal(form["properties"], &not) == nil, "words.json: the fields of a job with steps are no object")
		for _, r := range job.Rules {
			not = append(not, member{r.Name, false})
		}
		form["properties"], _ = not.MarshalJSON() // of valid JSON
	}
	is[i].value = forms
	return is
}

// field is the schema of a field by its type and tags.
func (s *scribe) field(f reflect.StructField, at string) members {
	is := s.plain(f, at)
	if f.Tag.Get("list") != "" { // a list sets the field with the timetable
		is[0].value = append(is[0].value.([]any), ref("schedules"))
	}
	return is
}

func (s *scribe) plain(f reflect.StructField, at string) members {
	t := f.Type
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	for _, is := range sharedTypes {
		if is.of == t {
			return ref(is.name)
		}
	}
	switch t {
	case reflect.TypeFor[value.Duration]():
		return ref("duration")
	case reflect.TypeFor[value.Size]():
		return ref("size")
	case reflect.TypeFor[value.Number]():
		return members{{"type", "number"}}
	case reflect.TypeFor[map[string]json.RawMessage]():
		return ref("defaults")
	case reflect.TypeFor[[]json.RawMessage]():
		return ref("values")
	case reflect.TypeFor[param.Params](), reflect.TypeFor[placement.Selector](), reflect.TypeFor[json.RawMessage]():
		return nil // words.json has it
	}
	switch t.Kind() {
	case reflect.String:
		return textOf(f)
	case reflect.Bool:
		return members{{"type", "boolean"}}
	case reflect.Int:
		least := 0
		if value.ZeroIsDefault(f) || !strings.Contains(f.Tag.Get("json"), ",omit") {
			least = 1
		}
		return members{{"type", "integer"}, {"minimum", least}, {"maximum", 2147483647}}
	case reflect.Float64:
		return members{{"type", "number"}}
	case reflect.Struct:
		return s.shared(t, at)
	case reflect.Slice:
		return s.list(f, t, at)
	}
	return members{{"type", "object"}}
}

// shared is the schema of a struct, with what is short for it, or of a list of such.
func (s *scribe) shared(t reflect.Type, at string) members {
	if t.Kind() == reflect.Slice {
		return s.add("[]"+t.Elem().Name(), "", members{{"type", "array"}, {"minItems", 1}, {"items", s.shared(t.Elem(), at+"/items")}})
	}
	forms := s.short(t, at)
	if len(forms) == 0 {
		return s.object(t, at)
	}
	return members{{"oneOf", append(forms, s.object(t, at+"/oneOf/"+strconv.Itoa(len(forms))))}}
}

// short are the schemas of what may stand in place of a whole struct.
func (s *scribe) short(t reflect.Type, at string) (forms []any) {
	for _, f := range fieldsOf(t) {
		if f.Tag.Get("short") != "" {
			forms = append(forms, s.add(t.Name(), f.Name+" alone", s.plain(f, at)))
		}
	}
	return forms
}

func (s *scribe) list(f reflect.StructField, t reflect.Type, at string) members {
	alone, said := f.Tag.Lookup("alone")
	f.Type = t.Elem()
	if f.Type.Kind() == reflect.String && f.Tag.Get("read") == "" {
		f.Tag += ` read:"line"`
	}
	items := "/items"
	if alone == "text" {
		items = "/oneOf/1/items"
	}
	one := s.plain(f, at+items)
	all := s.add("[]"+f.Type.Name(), "", members{{"type", "array"}, {"minItems", 1}, {"items", one}})
	switch {
	case f.Type.Kind() == reflect.Struct && !said:
		return members{{"oneOf", []any{one, append(all, member{"maxItems", limit.MaxEntries})}}}
	case alone == "text" && f.Type.Kind() == reflect.String:
		return members{{"oneOf", []any{one, all}}}
	case alone == "text":
		return members{{"oneOf", []any{s.short(f.Type, at)[0], all}}}
	}
	return all
}

// textOf is the schema of text by its tags.
func textOf(f reflect.StructField) members {
	switch words := f.Tag.Get("words"); {
	case f.Tag.Get("names") != "":
		return ref("name")
	case words != "":
		return members{{"enum", strings.Split(words, ",")}}
	case f.Tag.Get("read") == "line":
		return members{{"type", "string"}, {"minLength", 1}}
	}
	return members{{"type", "string"}}
}

func ref(name string) members { return members{{"$ref", "#/$defs/" + name}} }

// add adds the words of a field.
func (s *scribe) add(of, name string, is members) members {
	said := s.words[of][name]
	if said == nil {
		return is
	}
	s.used[of+"."+name] = true
	var words string
	if json.Unmarshal(said, &words) == nil {
		return append(members{{"description", words}}, is...)
	}
	var more members
	value.Assert(json.Unmarshal(said, &more) == nil, "words.json: %s.%s is neither text nor an object", of, name)
	for _, kind := range []string{"$ref", "type", "oneOf", "anyOf", "allOf", "enum"} {
		if name != "" && more.find(kind) >= 0 {
			return more
		}
	}
	return append(more, slices.DeleteFunc(is, func(m member) bool { return more.find(m.key) >= 0 })...)
}

// members are the members of a JSON object, in order.
type members []member

type member struct {
	key   string
	value any
}

func (m members) find(key string) int {
	return slices.IndexFunc(m, func(is member) bool { return is.key == key })
}

// MarshalJSON writes the object.
func (m members) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i, is := range m {
		if i > 0 {
			b = append(b, ',')
		}
		var text bytes.Buffer
		e := json.NewEncoder(&text)
		e.SetEscapeHTML(false)
		if err := e.Encode(is.value); err != nil {
			return nil, err
		}
		b = append(form.AppendString(b, is.key), ':')
		b = append(b, text.Bytes()...)
	}
	return append(b, '}'), nil
}

// UnmarshalJSON reads an object, whose values stay as they are written.
func (m *members) UnmarshalJSON(text []byte) error {
	d := json.NewDecoder(bytes.NewReader(text))
	if _, err := d.Token(); err != nil {
		return err
	}
	for d.More() {
		key, err := d.Token()
		if err != nil {
			return err
		}
		var is json.RawMessage
		if err := d.Decode(&is); err != nil {
			return err
		}
		*m = append(*m, member{key.(string), is})
	}
	return nil
}
