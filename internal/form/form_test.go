package form

import (
	"bytes"
	"encoding/json"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/mailru/easyjson/jlexer"
)

// span writes itself as text, and shade as JSON.
type (
	span  time.Duration
	shade struct{ of int }
	name  string
)

func (s span) MarshalText() ([]byte, error) { return []byte(time.Duration(s).String()), nil }
func (s *span) UnmarshalText(b []byte) error {
	d, err := time.ParseDuration(string(b))
	*s = span(d)
	return err
}
func (s shade) MarshalJSON() ([]byte, error)  { return json.Marshal([]int{s.of}) }
func (s *shade) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &[]*int{&s.of}) }

// within is embedded.
type within struct {
	Inner string    `json:"inner,omitzero"`
	When  time.Time `json:"when,omitzero"`
}

// whole has a field of each kind.
type whole struct {
	Name   name   `json:"name,omitzero"`
	Always int    `json:"always"`
	Long   int64  `json:"long,omitzero"`
	Seq    uint64 `json:"seq,omitzero"`
	Yes    bool   `json:"yes,omitzero"`
	within
	Chance  float64                `json:"chance,omitzero"`
	Span    span                   `json:"span,omitzero"`
	Shade   shade                  `json:"shade,omitzero"`
	Exit    *int                   `json:"exit,omitzero"`
	None    *int                   `json:"none"`
	Labels  map[string]string      `json:"labels,omitempty"`
	Times   map[name]time.Time     `json:"times,omitempty"`
	Wiped   map[string]*name       `json:"wiped,omitempty"`
	Names   []name                 `json:"names,omitempty"`
	Parts   []within               `json:"parts,omitempty"`
	Raw     json.RawMessage        `json:"raw,omitempty"`
	Result  json.RawMessage        `json:"result,omitempty" form:"null"`
	Next    *whole                 `json:"next,omitempty"`
	Part    within                 `json:"part,omitzero"`
	Skipped map[chan int]complex64 `json:"-"`
}

func full() whole {
	exit, a := 3, name("a")
	at := time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)
	w := whole{
		Name: "<Größe> \"a\\b\"\n\t\x01", Long: math.MinInt64, Seq: math.MaxUint64, Yes: true, within: within{"x", at}, Chance: 0.25, Span: span(90 * time.Second), Shade: shade{7},
		Exit: &exit, Labels: map[string]string{"z": "1", "b\"": "", "a": "3"}, Times: map[name]time.Time{"x": at, "y": at.Add(1)}, Wiped: map[string]*name{"k": nil, "l": &a},
		Names: []name{"a", ""}, Parts: []within{{}, {"y", at}}, Raw: json.RawMessage(`{"a":[1,null]}`), Result: json.RawMessage(`null`), Part: within{Inner: "p"},
	}
	next := w
	w.Next = &next
	return w
}

// A form's output equals that of encoding/json with the same tags, and each reads the other's.
func TestEqualsEncodingJSON(t *testing.T) {
	f := Of[whole]()
	for _, v := range []whole{full(), {}} {
		var want bytes.Buffer
		e := json.NewEncoder(&want)
		e.SetEscapeHTML(false)
		if err := e.Encode(v); err != nil {
			t.Fatal(err)
		}
		got, err := f.Append([]byte("before"), &v)
		if err != nil || string(got) != "before"+strings.TrimSpace(want.String()) {
			t.Errorf("%v\n%s\nwant\n%s", err, got, want.String())
		}
		var read, reads whole
		if err := f.Read(want.Bytes(), &read); err != nil || !reflect.DeepEqual(read, v) {
			t.Errorf("read %+v, %v\nwant %+v", read, err, v)
		}
		if err := json.Unmarshal(got[len("before"):], &reads); err != nil {
			t.Error(err)
		}
	}
}

// The own form reads back exactly, in every field and of every year.
func TestOwn(t *testing.T) {
	f := Of[whole](Own())
	for _, at := range []time.Time{time.Unix(0, 0), time.Unix(-5, 1), time.Unix(1<<40, 999999999), {}, time.Date(-44, 3, 15, 12, 0, 0, 1, time.UTC)} {
		v := full()
		v.When = at
		text, err := f.Append(nil, &v)
		var read whole
		if err == nil {
			err = f.Read(text, &read)
		}
		if v.When = v.When.UTC(); err != nil || !reflect.DeepEqual(read, v) {
			t.Errorf("%v: read %+v, %v\nfrom %s", at, read, err, text)
		}
	}
	odd := whole{Name: "\xff\xfe\n", Labels: map[string]string{"\xe2": "\x80"}, Raw: json.RawMessage("null")}
	text, _ := f.Append(nil, &odd)
	var read whole
	if err := f.Read(text, &read); err != nil || !reflect.DeepEqual(read, odd) {
		t.Errorf("read %+v, %v\nfrom %s", read, err, text)
	}
	if err := f.Read([]byte(`{"when":"2026-03-01T12:00:00Z"}`), new(whole)); err == nil {
		t.Error("a time of somebody else's was read")
	}
}

func TestReads(t *testing.T) {
	f := Of[whole](Without("parts"))
	for text, want := range map[string]whole{
		`{}`: {},
		`{"unknown":{"name":"x"},"parts":[{}],"name":"a"}`:            {Name: "a"},
		`{"name":"a","name":"b"}`:                                     {Name: "b"},
		`{"name":null,"raw":null,"result":null,"labels":null}`:        {Result: json.RawMessage("null")},
		`{"exit":0,"labels":{},"names":[]}`:                           {Exit: new(int)},
		`{"when":"2026-03-01T13:00:00+01:00"}`:                        {within: within{When: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)}},
		"{ \"seq\" : 7 ,\n \"labels\" : { \"a\" : null } }":           {Seq: 7, Labels: map[string]string{"a": ""}},
		`{"names":[null,"\u00e9\n"],"next":{"yes":true,"part":null}}`: {Names: []name{"", "é\n"}, Next: &whole{Yes: true}},
	} {
		var read whole
		if err := f.Read([]byte(text), &read); err != nil || !reflect.DeepEqual(read, want) {
			t.Errorf("%s: %+v, %v", text, read, err)
		}
	}
	for _, text := range []string{``, `{`, `{}}`, `[]`, `{"seq":-1}`, `{"seq":07}`, `{"always":1.5}`, `{"always":"1"}`, `{"name":1}`, `{"yes":"true"}`, `{"when":5}`, `{"span":"x"}`,
		`{"labels":{"a":1}}`, `{"labels":[]}`, `{"names":{}}`, `{"names":["a"}`, `{"raw":foo}`, `{"next":[]}`, `{"shade":{}}`, `{"when":"9999-12-31T23:59:59-01:00"}`} {
		if err := f.Read([]byte(text), new(whole)); err == nil {
			t.Errorf("%s was read", text)
		}
	}
}

// A small text does not become hundreds of times as much in memory.
func TestRefusesHollowItems(t *testing.T) {
	type item struct {
		Name string      `json:"name,omitempty"`
		Room [120]string `json:"-"`
	}
	type items struct {
		All []item `json:"all,omitempty"`
	}
	f := Of[items]()
	dense := `{"name":"` + strings.Repeat("x", 30) + `"}`
	for text, want := range map[string]bool{`{"all":[]}`: true, `{"all":[` + dense + "," + dense + `]}`: true, `{"all":[{}]}`: false, `{"all":[` + dense + `,null]}`: false} {
		if err := f.Read([]byte(text), new(items)); (err == nil) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// The error names the field that cannot be written.
func TestRefusesToWrite(t *testing.T) {
	f := Of[whole]()
	for field, v := range map[string]whole{
		"when":   {within: within{When: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)}},
		"raw":    {Raw: json.RawMessage(`{`)},
		"result": {Result: json.RawMessage("\"\xff\"")},
		"chance": {Chance: math.NaN()},
	} {
		if text, err := f.Append(nil, &v); err == nil || !strings.Contains(err.Error(), field) || len(text) > 0 {
			t.Errorf("%s: %s, %v", field, text, err)
		}
	}
}

// Making the form of an unsupported type fails.
func TestRefusesTypes(t *testing.T) {
	field := func(name string, of reflect.Type, tag reflect.StructTag) reflect.StructField {
		f := reflect.StructField{Name: name, Type: of, Tag: tag}
		if name == strings.ToLower(name) {
			f.PkgPath = "form"
		}
		return f
	}
	number := reflect.TypeFor[int]()
	for what, fields := range map[string][]reflect.StructField{
		"no tag":        {field("A", number, "")},
		"not exported":  {field("a", number, `json:"a"`)},
		"two of a name": {field("A", number, `json:"a"`), field("B", number, `json:"a"`)},
		"unknown kind":  {field("A", reflect.TypeFor[[]chan int](), `json:"a"`)},
		"unknown size":  {field("A", reflect.TypeFor[map[string]int32](), `json:"a"`)},
	} {
		if !panics(func() { (&compiler{objects: map[reflect.Type]*object{}}).object(reflect.StructOf(fields)) }) {
			t.Errorf("%s: there is a form", what)
		}
	}
	if !panics(func() { Of[string]().Names() }) || !panics(func() { Of[within](Without("outer")).Names() }) {
		t.Error("there is a form of no struct, or without what is not there")
	}
}

func panics(f func()) (is bool) {
	defer func() { is = recover() != nil }()
	f()
	return false
}

func TestFields(t *testing.T) {
	f := Of[within](Without("inner"))
	if got := f.Names(); !reflect.DeepEqual(got, []string{"when"}) || f.Find("when", 1) != 0 || f.Find("inner", 0) != -1 {
		t.Errorf("%v", got)
	}
	w := Of[whole](As(func(w *Writer, n *whole) { w.Given([]byte(`"whole"`)) }, func(l *jlexer.Lexer) *whole { l.Skip(); return &whole{Always: 9} }))
	if !w.Nulls(w.Find("result", 0)) || w.Nulls(w.Find("raw", 0)) {
		t.Error("null is a value of the result alone")
	}
	text, err := w.Append(nil, &whole{Next: new(whole)})
	if err != nil || !strings.Contains(string(text), `"next":"whole"`) {
		t.Errorf("%s, %v", text, err)
	}
	var read whole
	if err := w.Read(text, &read); err != nil || read.Next.Always != 9 {
		t.Errorf("%+v, %v", read, err)
	}
}

// A text reads back equal, except for bytes that are not UTF-8, with no needless escapes.
func FuzzAppendString(f *testing.F) {
	for _, s := range []string{"", "plain", "a <b> & 'c'", "\"\\\n\r\t\x00\x1f\x7f", "Größe\u2028", "\xff\xfea\xe2\x28\xa1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		text := AppendString([]byte("x"), s)[1:]
		var back string
		if err := json.Unmarshal(text, &back); err != nil || !utf8.Valid(text) {
			t.Fatalf("%q became %s: %v", s, text, err)
		}
		if want := string([]rune(s)); back != want {
			t.Errorf("%q came back as %q", s, back)
		}
	})
}
