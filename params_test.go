package millrace

import (
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"millrace/task/job"
	"millrace/task/param"
	"millrace/task/value"
)

type base struct {
	Owner string `json:"owner"`
}

type tree struct {
	Name string `json:"name"`
	Kids []tree `json:"kids,omitempty"`
}

type everything struct {
	base
	Text   string         `json:"text" doc:"what it says"`
	Whole  int            `json:"whole,omitempty"`
	Count  uint8          `json:"count,omitzero"`
	Share  float64        `json:"share"`
	Quoted int            `json:"quoted,string"`
	Maybe  *int           `json:"maybe,string"`
	On     *bool          `json:"on"`
	When   time.Time      `json:"when"`
	Bytes  []byte         `json:"bytes"`
	Tags   []string       `json:"tags"`
	Sizes  map[string]int `json:"sizes"`
	Any    any            `json:"any"`
	Raw    json.RawMessage
	Tree   tree   `json:"tree"`
	Hidden string `json:"-"`
	own    string
}

var _ = everything{}.own // what is not exported is no parameter

// round passes a value through its parameters, as a submission and a worker do.
func round[T any](t *testing.T, in T, want string) {
	t.Helper()
	params, err := encode(in)
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(params)
	if err != nil {
		t.Fatal(err)
	}
	if want != "" && string(body) != want {
		t.Errorf("%T becomes %s, want %s", in, body, want)
	}
	out, err := decode[T](body)
	if err != nil || !reflect.DeepEqual(out, in) {
		t.Errorf("%T comes back as %+v, want %+v: %v", in, out, in, err)
	}
	// The declarations made from the type accept what the type makes.
	j := job.Job{Name: "a", Spec: job.Spec{Handler: "a"}, Params: param.Params{Declared: declared(reflect.TypeFor[T]())}}
	if err := j.Validate(); err != nil {
		t.Errorf("%T: %v", in, err)
	}
	set, wrong := j.Params.Read(params, nil)
	if wrong = append(wrong, j.Params.Missing(set)...); len(wrong) > 0 {
		t.Errorf("%T: %v", in, wrong)
	}
}

func TestParameters(t *testing.T) {
	yes := true
	round(t, everything{Raw: json.RawMessage("1")}, "")
	round(t, everything{base: base{"me"}, Text: "a", Whole: 1, Count: 2, Share: 0.5, Quoted: 3, On: &yes, When: time.Unix(1e9, 0).UTC(),
		Bytes: []byte("b"), Tags: []string{"c"}, Sizes: map[string]int{"d": 4}, Any: "e", Raw: json.RawMessage(`{"f":5}`),
		Tree: tree{"g", []tree{{"h", nil}}}}, "")
	round(t, struct{}{}, `{}`)
	round(t, &base{"me"}, `{"owner":"me"}`)
	round(t, map[string]int{"a": 1}, `{"a":1}`)
	round(t, "a", `{"value":"a"}`)
	round(t, 7, `{"value":7}`)
	round(t, []string{"a"}, `{"value":["a"]}`)
	round(t, []string(nil), `{"value":null}`)
	round(t, time.Unix(1e9, 0).UTC(), `{"value":"2001-09-09T01:46:40Z"}`)
}

// A declaration refuses what the type could not take, and asks for what it needs.
func TestDeclared(t *testing.T) {
	p := param.Params{Declared: declared(reflect.TypeFor[everything]())}
	for name, bad := range map[string]string{"text": `1`, "whole": `1.5`, "count": `-1`, "when": `7`, "tags": `[1]`, "sizes": `{"a":"b"}`,
		"tree": `{"name":"a","kids":[{}, 1]}`, "Hidden": `"a"`, "own": `"a"`, "quoted": `3`, "maybe": `3`, "owner": `null`} {
		if _, wrong := p.Read(map[string]json.RawMessage{name: json.RawMessage(bad)}, nil); len(wrong) != 1 {
			t.Errorf("%s: %s is refused with %v", name, bad, wrong)
		}
	}
	if _, wrong := p.Read(map[string]json.RawMessage{"maybe": json.RawMessage("null")}, nil); wrong != nil {
		t.Error(wrong)
	}
	var missing []string
	for i := range p.Declared {
		if !p.Declared[i].Optional {
			missing = append(missing, p.Declared[i].Name)
		}
	}
	want := []string{"owner", "text", "share", "quoted", "when", "bytes", "tags", "sizes", "any", "Raw", "tree"}
	if !reflect.DeepEqual(missing, want) {
		t.Errorf("required are %q, want %q", missing, want)
	}
}

// A tag says which values a field may have, also one of a struct within.
func TestEnum(t *testing.T) {
	type inner struct {
		Size int `json:"size" enum:"1,2"`
	}
	type outer struct {
		Zone  string  `json:"zone" enum:"eu,us,7"`
		Maybe *string `json:"maybe" enum:"a"`
		In    inner   `json:"in"`
	}
	p := param.Params{Declared: declared(reflect.TypeFor[outer]())}
	for text, ok := range map[string]bool{
		`{"zone":"eu","maybe":"a","in":{"size":2}}`: true, `{"zone":"7","maybe":null}`: true, `{"zone":7}`: false,
		`{"zone":"uk"}`: false, `{"maybe":"b"}`: false, `{"in":{"size":3}}`: false,
	} {
		given, _ := value.Members([]byte(text)) // it is an object
		if _, wrong := p.Read(given, nil); (wrong == nil) != ok {
			t.Errorf("%s: %v", text, wrong)
		}
	}
	type wrong struct {
		Size int `enum:"small"`
	}
	if all := (&param.Params{Declared: declared(reflect.TypeFor[wrong]())}).Validate(); len(all) != 1 {
		t.Errorf("a number that is small: %v", all)
	}
	if form, _ := asked(reflect.TypeFor[wrong]()); form != nil {
		t.Errorf("it asks for %v", form)
	}
}

// Of fields with one name the outermost is declared, as JSON has it, and what an absent struct has may be absent.
func TestEmbeddedFields(t *testing.T) {
	type Loop struct {
		*tree
		*Loop
		Name int `json:"name"`
	}
	got := map[string]bool{}
	for _, p := range declared(reflect.TypeFor[struct {
		Loop
		base
		*everything
		Text int `json:"text"`
	}]()) {
		if _, double := got[p.Name]; double || p.Name == "text" && p.Type != "integer" || p.Name == "owner" && p.Optional {
			t.Errorf("declared is %+v", p)
		}
		got[p.Name] = p.Optional
	}
	if len(got) != 17 || got["name"] || !got["kids"] || !got["share"] {
		t.Errorf("declared and optional are %v", got)
	}
	if two := declared(reflect.TypeFor[struct {
		other
		another
	}]()); len(two) != 1 || two[0].Name != "Size" {
		t.Errorf("of two with one name: %+v", two)
	}
}

type (
	other   struct{ Name string }
	another struct{ Name, Size string }
)

// Lines replace fields as a whole, also with nothing.
func TestFieldsReplace(t *testing.T) {
	f := Action("a", func(context.Context, int) error { return nil }, Retries(3), Unique("k"), Priority(7), Fields("retry: {max: 0}\nunique: {}"))
	if j := f.of.settings.job; f.of.settings.fault() != nil || j.Retry.Max != 0 || j.Unique.Key != "" || j.Priority != 7 {
		t.Errorf("the job is %+v: %v", j, f.of.settings.fault())
	}
}

// Two functions in one queue share no key and no limit, unless they say so.
func TestOwnKeys(t *testing.T) {
	f := Action("mail", func(context.Context, int) error { return nil }, Fields(`
unique: {key: "{params.value}"}
concurrency: [{max: 1}, {max: 2, key: /all}]
per_node: {max: 1, key: b}
budget: {starts: 9}
rate: {limit: 1, per: 1m, key: c}`), Fields("priority: 7"))
	j, late := f.of.settings.job, f.of.settings.with([]Option{Fields("unique: {}\ncollapse: {key: a, quiet: 1s}")})
	if f.of.settings.fault() != nil || len(j.Concurrency) != 2 {
		t.Fatalf("the job is %+v: %v", j, f.of.settings.fault())
	}
	got := []string{j.Unique.Key, late.job.Collapse.Key, late.job.Unique.Key, j.Concurrency[0].Key, j.Concurrency[1].Key, j.PerNode[0].Key, j.Budget[0].Key, j.Rate[0].Key}
	if want := []string{"/mail/{params.value}", "/mail/a", "", "/mail", "/all", "/mail/b", "/mail", "/mail/c"}; !slices.Equal(got, want) {
		t.Errorf("the keys are %q, want %q", got, want)
	}
}

// Names of jobs have no dots or colons, and those of functions may. What a function says of its results goes along.
func TestNames(t *testing.T) {
	mail := Action("mail:welcome.de", func(context.Context, int) error { return nil })
	if j, err := mail.of.asJob(); err != nil || j.Name != "mail-welcome-de" || j.Handler != "mail:welcome.de" {
		t.Errorf("the job is %s of the handler %s: %v", j.Name, j.Handler, err)
	}
	f := Func("any", func(context.Context, int) (any, error) { return nil, nil }, Fields("returns: {type: object}"))
	if j, err := f.of.asJob(); err != nil || string(j.Returns) != `{"type":"object"}` {
		t.Errorf("its results are %s: %v", j.Returns, err)
	}
}

func TestResult(t *testing.T) {
	for want, out := range map[string]any{"": struct{}{}, `{"owner":"me"}`: base{"me"}, "7": 7} {
		if got, err := encodeResult(out); string(got) != want || err != nil {
			t.Errorf("%v becomes %s, want %s: %v", out, got, want, err)
		}
	}
	if got, err := encodeResult([]int(nil)); got != nil || err != nil {
		t.Errorf("nothing becomes %s: %v", got, err)
	}
}

// A result that does not fit the type says where, and what it is to be there; whatever a function returns fits its own.
func TestResults(t *testing.T) {
	t.Parallel()
	type thumb struct {
		URL   string   `json:"url"`
		Sizes []int    `json:"sizes"`
		Note  string   `json:"note,omitempty"`
		Of    *float64 `json:"of"`
	}
	for result, want := range map[string]string{
		`{"url":"a","sizes":null}`:              "",
		`{"url":"a","sizes":[1],"later":true}`:  "",
		`{"url":"a"}`:                           "sizes",
		`{"url":7,"sizes":[]}`:                  "url",
		`{"url":"a","sizes":[1,"b"]}`:           "sizes",
		`"a"`:                                   "want",
		`{"url":"a","sizes":[1.5]}`:             "sizes",
		`{"url":"a","sizes":[],"of":{"n":1.5}}`: "of",
	} {
		var out thumb
		err := decodeResult(json.RawMessage(result), &out)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", result, err, want)
		}
	}
	for _, own := range []everything{{}, {Bytes: []byte{1}, Tags: []string{"a"}, Sizes: map[string]int{"a": 1}, On: new(bool), Tree: tree{Kids: []tree{{}}}}} {
		var out everything
		if result, err := encodeResult(own); err != nil || decodeResult(result, &out) != nil {
			t.Errorf("%s does not fit its own type: %v, %v", result, err, decodeResult(result, &out))
		}
	}
}

// What types cost a task, beside a handler of raw JSON: its parameters are read, its result is written. BenchmarkSteps
// says what a whole task costs.
func BenchmarkTyped(b *testing.B) {
	params := json.RawMessage(`{"owner":"me"}`)
	for b.Loop() {
		in, err := decode[base](params)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := encodeResult(in); err != nil {
			b.Fatal(err)
		}
	}
}

// readsOnly is read by its own rules, and written as other texts.
type readsOnly string

func (r *readsOnly) UnmarshalJSON(b []byte) error { *r = readsOnly(b); return nil }

// readsText has its own form, which only its reader knows.
type readsText struct{ Is int }

func (r *readsText) UnmarshalText(b []byte) error { r.Is = len(b); return nil }

// TestAsked makes forms of the types of answers: none where a type may read what a form would refuse.
func TestAsked(t *testing.T) {
	big := make([]reflect.StructField, 90)
	for i := range big {
		big[i] = reflect.StructField{Name: "F" + strconv.Itoa(i), Type: reflect.TypeFor[int](), Tag: reflect.StructTag(`doc:"` + strings.Repeat("x", 200) + `"`)}
	}
	for want, of := range map[string]reflect.Type{
		`[{"name":"value","type":"boolean"}] true`:                                                              reflect.TypeFor[bool](),
		`[{"name":"value","type":"integer","optional":true}] true`:                                              reflect.TypeFor[*int](),
		`[{"name":"value","type":"string"}] true`:                                                               reflect.TypeFor[string](),
		`[{"name":"value","schema":{"items":{"type":"string"},"type":["array","null"]}}] true`:                  reflect.TypeFor[[]string](),
		`[{"name":"value","schema":{"additionalProperties":{"type":"integer"},"type":["object","null"]}}] true`: reflect.TypeFor[map[string]int](),
		`[{"name":"value","schema":{"format":"date-time","type":"string"}}] true`:                               reflect.TypeFor[time.Time](),
		`[{"name":"owner","type":"string"}] false`:                                                              reflect.TypeFor[*base](),
		`[{"name":"is"},{"name":"of","optional":true}] false`: reflect.TypeFor[struct {
			Is readsOnly `json:"is"`
			Of readsText `json:"of,omitzero"`
		}](),
	} {
		form, alone := asked(of)
		text, err := json.Marshal(form)
		if got := string(text) + " " + strconv.FormatBool(alone); got != want || err != nil {
			t.Errorf("%v is asked by %s, %v; want %s", of, got, err, want)
		}
	}
	for _, of := range []reflect.Type{reflect.TypeFor[any](), reflect.TypeFor[json.RawMessage](), reflect.TypeFor[struct{}](), reflect.TypeFor[readsOnly](),
		reflect.TypeFor[readsText](), reflect.TypeFor[struct {
			A int `json:"a b"`
		}](), reflect.StructOf(big)} {
		if form, alone := asked(of); form != nil || alone {
			t.Errorf("%v is asked by %+v", of, form)
		}
	}
}
