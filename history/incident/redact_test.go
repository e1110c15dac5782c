package incident

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"millrace/events"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/node"
	"millrace/task/param"
	"millrace/task/placement"
	"millrace/task/schedule"
)

const factCorpus = "../../events/testdata/corpus/fact/v1"

// corpusFacts returns facts of all types, one of each with all fields.
func corpusFacts(t testing.TB) []events.Fact {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(factCorpus, "*"))
	if err != nil || len(names) == 0 {
		t.Fatalf("the corpus: %v, %v", names, err)
	}
	var facts []events.Fact
	for _, name := range names {
		raw, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		f, err := events.Decode(raw)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		facts = append(facts, f)
	}
	return facts
}

// fieldsOf calls each for every field below a type.
func fieldsOf(t reflect.Type, seen map[reflect.Type]bool, each func(name string, f reflect.StructField)) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		fieldsOf(t.Elem(), seen, each)
	case reflect.Struct:
		if seen[t] || t.PkgPath() == "time" {
			return
		}
		seen[t] = true
		for i := range t.NumField() {
			f := t.Field(i)
			if !f.IsExported() {
				continue
			}
			if each(t.String()+"."+f.Name, f); !texts(f.Type) {
				fieldsOf(f.Type, seen, each)
			}
		}
	}
}

// Each text of a fact or a definition has a class, and no other field has one.
func TestClasses(t *testing.T) {
	seen := map[reflect.Type]bool{}
	of := []reflect.Type{reflect.TypeFor[events.Fact](), reflect.TypeFor[job.Job](), reflect.TypeFor[schedule.Definition](), reflect.TypeFor[schedule.Calendar]()}
	for _, f := range corpusFacts(t) {
		of = append(of, reflect.TypeOf(f.Event))
	}
	for _, of := range of {
		fieldsOf(of, seen, func(name string, f reflect.StructField) {
			said, tagged := f.Tag.Lookup(tag)
			switch _, known := classes[said]; {
			case texts(f.Type) && !tagged:
				t.Errorf("%s has no class: say in its tag, such as redact:\"hide\", what becomes of it", name)
			case tagged && !known:
				t.Errorf("%s has the class %q, which does not exist", name, said)
			case tagged && !texts(f.Type):
				t.Errorf("%s has a class, and is no text", name)
			}
		})
	}
}

// canary must not occur in a file. It is not a name, a number or a word.
const canary = "Pa55word! of the \"canary\""

// plant puts the canary into all texts below a value, except those that the class keeps. It copies
// targets of pointers.
func plant(v reflect.Value) {
	var none Redactor
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		is := reflect.New(v.Elem().Type())
		is.Elem().Set(v.Elem())
		plant(is.Elem())
		if v.Kind() == reflect.Interface {
			is = is.Elem()
		}
		v.Set(is)
	case reflect.Slice, reflect.Map:
		none.each(v, plant)
	case reflect.Struct:
		if named, ok := v.Addr().Interface().(*placement.Requirement); v.Type().PkgPath() == "time" || ok && named.Key == "node" {
			return
		}
		for i := range v.NumField() {
			f := v.Type().Field(i)
			switch c := classOf(&f); {
			case !f.IsExported():
			case !texts(f.Type):
				plant(v.Field(i))
			case f.Name == "Key" && v.Field(i).IsZero() && v.Type() == reflect.TypeFor[events.Fact](): // otherwise it has two subjects
			case c != keep && c != named:
				plantText(v.Field(i), c)
			}
		}
	}
}

func plantText(v reflect.Value, c class) {
	switch {
	case v.Type() == rawType:
		if v.Len() > 0 {
			text, _ := json.Marshal(map[string]any{"name": canary, "list": []any{canary, map[string]string{"x": canary}}})
			v.SetBytes(text)
		}
	case v.Kind() == reflect.String:
		v.SetString(canary)
		if c == counter {
			v.SetString("key:job/" + canary)
		}
		if c == template {
			v.SetString("/{params.x}" + canary)
		}
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			is := reflect.New(v.Type().Elem())
			plantText(is.Elem(), c)
			v.Set(is)
		}
	case v.Kind() == reflect.Slice || texts(v.Type().Elem()):
		var none Redactor
		none.each(v, func(is reflect.Value) { plantText(is, c) })
	case v.Kind() == reflect.Map && !v.IsNil():
		v.SetMapIndex(reflect.ValueOf("key:job/"+canary).Convert(v.Type().Key()), reflect.ValueOf(time.Unix(9, 0)))
	}
}

// leaks returns the spelling of the canary that a text contains.
func leaks(text string) string {
	quoted, _ := json.Marshal(canary)
	for _, spelling := range []string{canary, string(quoted[1 : len(quoted)-1]), "Pa55word", url.QueryEscape(canary), base64.StdEncoding.EncodeToString([]byte(canary))} {
		if strings.Contains(text, spelling) {
			return spelling
		}
	}
	return ""
}

// defining returns a fact that changes a definition once for each kind, with secrets in the
// definition; any other fact alone.
func defining(t *testing.T, f events.Fact) (all []events.Fact) {
	t.Helper()
	event := reflect.ValueOf(f.Event)
	if event.Kind() != reflect.Struct || !event.FieldByName("Edition").IsValid() {
		return []events.Fact{f}
	}
	j := job.Job{Name: "x", Spec: job.Spec{Run: &job.Run{Shell: "echo", Env: map[string]string{"A": "b"}, Argv: []string{"x"}}},
		Params: param.Params{Defaults: map[string]json.RawMessage{"p": json.RawMessage(`1`)}}, Title: "t", Labels: map[string]string{"l": "x"}, Description: "d"}
	for kind, of := range map[string]any{
		task.DefJob:      &j,
		task.DefSchedule: &schedule.Definition{Name: "x", Make: birth.Submission{Params: j.Params.Defaults, Spec: &j.Spec, FairKey: "f"}, Paused: &schedule.Pause{Reason: "r"}},
		task.DefCalendar: &schedule.Calendar{Name: "x", Title: "t"},
		"other":          &j,
	} {
		plant(reflect.ValueOf(of).Elem())
		text, err := json.Marshal(of)
		if err != nil {
			t.Fatal(err)
		}
		is := reflect.New(event.Type()).Elem()
		is.Set(event)
		is.FieldByName("Edition").Set(reflect.ValueOf(task.Edition{Revision: 1, Text: text, Digest: task.DigestOf(text)}))
		f.Event, f.Def = is.Interface(), task.Named(kind, "x")
		all = append(all, f)
	}
	return all
}

// Secrets are planted in every text of every fact, in a definition, in an unknown field, in an
// unreadable message and in output. None is in the file.
func TestPlantedSecrets(t *testing.T) {
	var records []events.Record
	planted := 0
	add := func(f events.Fact, raw []byte, err error) {
		r := events.Record{Seq: uint64(len(records) + 1), Stored: time.Unix(1, 0), Kind: events.KindChain, Place: "mr.x", Fact: f, Raw: raw, Err: err}
		if f.Task == "" && err == nil {
			r.Kind = events.KindDefinition // on the chain of a task it would be unreadable, and all of it hidden
		}
		if why := r.Unreadable(); why != "" && err == nil {
			t.Fatalf("%s: %s", f.Type, why)
		}
		records = append(records, r)
	}
	var facts []events.Fact
	for _, f := range corpusFacts(t) {
		facts = append(facts, defining(t, f)...)
	}
	for _, f := range facts {
		plant(reflect.ValueOf(&f).Elem())
		f.Extra = map[string]json.RawMessage{"later": json.RawMessage(`"` + "Pa55word" + `"`)}
		raw, err := events.Encode(nil, &f)
		if err != nil {
			t.Fatalf("%s: %v", f.Type, err)
		}
		if leaks(string(raw)) != "" {
			planted++
		}
		if f, err = events.Decode(raw); err != nil {
			t.Fatalf("%s: %v", f.Type, err)
		}
		add(f, raw, nil)
	}
	if planted < 40 {
		t.Fatalf("only %d facts have the secret", planted)
	}
	add(events.Fact{}, []byte(canary), errText(canary))
	x := NewRedactor([]byte("key"))
	var lines strings.Builder
	for i := range records {
		is, err := x.Fact(&records[i])
		if err != nil {
			t.Fatalf("%s: %v", records[i].Fact.Type, err)
		}
		line := string(events.AppendLine(nil, &is))
		if spelling := leaks(line); spelling != "" {
			t.Errorf("%s has %q: %s", records[i].Fact.Type, spelling, line)
		}
		lines.WriteString(line)
	}
	body, _ := json.Marshal(map[string]any{"lines": []string{"it is " + canary + "."}})
	l := Lines{Body: body}
	if x.Output()(&l); leaks(string(l.Body)) != "" || !strings.Contains(string(l.Body), "it is ~") {
		t.Errorf("the output has it: %s", l.Body)
	}
	l.Body = json.RawMessage(`{"lines":["git clone https://kim:hunter2@host/x, redis://:&hunter3<@h:6379 and http://host:80/a@b \"q\""]}`)
	if x.Output()(&l); strings.Contains(string(l.Body), "hunter") || !json.Valid(l.Body) || !strings.Contains(string(l.Body), "https://kim:~") || !strings.Contains(string(l.Body), "http://host:80/a@b") {
		t.Errorf("the output keeps passwords of URLs, or loses more than those: %s", l.Body)
	}
}

type errText string

func (e errText) Error() string { return string(e) }

// A number in a label stays only if the label is a node's, and a rule compares it.
func TestNumbersInLabels(t *testing.T) {
	born := task.Submitted{Work: task.Work{Spec: &job.Spec{Handler: "x"}, Route: "default.5", Labels: map[string]string{"card": "4111111111111111", "mem": "64"}}}
	born.Spec.Place.Labels = placement.Selector{{Key: "mem", Op: placement.OpGreaterEqual, Values: []string{"16"}}, {Key: "rack", Op: placement.OpIn, Values: []string{"7"}}}
	facts := []events.Fact{
		{Task: "01JD6Z8V3M0QK4T7W2X9Y5AB0A", Type: events.TaskSubmitted, Event: born},
		{Node: "n1", Type: events.NodeRegistered, Event: node.Registered{Session: "s", Profile: node.Profile{Labels: map[string]string{"mem": "32", "rack": "7", "zone": "eu"}}}},
	}
	x := NewRedactor([]byte("key"))
	var records []events.Record
	for i := range facts {
		f := &facts[i]
		f.ID, f.At = "01JD6Z8V3M0QK4T7W2X9Y5AB0B", time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
		raw, err := events.Encode(nil, f)
		if err != nil {
			t.Fatal(err)
		}
		kind := events.KindOffer
		if f.Node != "" {
			kind = events.KindNode
		}
		records = append(records, events.Record{Seq: uint64(i + 1), Kind: kind, Fact: *f, Raw: raw})
	}
	for i := range records {
		x.See(&records[i])
	}
	var lines strings.Builder
	for i := range records {
		is, err := x.Fact(&records[i])
		if err != nil {
			t.Fatal(err)
		}
		lines.Write(is.Raw)
	}
	text := strings.ReplaceAll(lines.String(), `\u003e`, ">")
	for _, kept := range []string{`"mem>=16"`, `"mem":"32"`, `"rack=` + x.hash("7") + `"`, `"rack":"` + x.hash("7") + `"`, `"mem":"` + x.hash("64") + `"`} {
		if !strings.Contains(text, kept) {
			t.Errorf("%s is missing: %s", kept, text)
		}
	}
	if strings.Contains(text, "4111") || !strings.HasSuffix(x.Rules()[0], "numbers stay in the labels of nodes that a rule compares: mem") {
		t.Errorf("%s\n%s", x.Rules()[0], text)
	}
}

// Redacting twice changes nothing. Values that rules compare stay unchanged or stay equal.
func TestRedacted(t *testing.T) {
	x := NewRedactor([]byte("key"))
	h := x.hash("acme")
	for _, c := range []struct {
		class    class
		is, want string
	}{
		{hide, "acme", h}, {hide, "", ""}, {keep, "acme", "acme"}, {word, "exit", "exit"}, {word, "acme!", x.hash("acme!")}, {actor, "scheduler", "scheduler"}, {actor, "acme", h},
		{values, "4.5", x.hash("4.5")}, {values, "acme", h}, {counter, "key:job/acme", "key:job/" + h}, {counter, "job:x", "job:x"},
		{template, "{params.a}", "{params.a}"}, {template, "/{params.a}acme", "/{params.a}" + h}, {hashedKey, "queue:x", "queue:x"}, {hashedKey, "acme", h},
	} {
		if have := x.text(c.is, c.class); c.class != keep && have != c.want {
			t.Errorf("%q of class %d: %q, want %q", c.is, c.class, have, c.want)
		}
	}
	if have := string(x.leaves([]byte(`{"b":["acme",5,true,null],"a":{"x":"acme"}}`))); have != `{"a":{"x":"`+h+`"},"b":["`+h+`","`+x.hash("5")+`",true,null]}` {
		t.Errorf("JSON: %s", have)
	}
	if NewRedactor([]byte("other")).hash("acme") == h {
		t.Error("another file has the same hash")
	}
}
