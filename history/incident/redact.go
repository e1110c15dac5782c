package incident

import (
	"bytes"
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"millrace/events"
	"millrace/task"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/placement"
	"millrace/task/schedule"
	"millrace/task/value"
)

// class is the treatment of a text.
type class uint8

// The classes. A field without a tag is hidden, and fails the test of the tags.
const (
	hide      class = iota // a keyed hash: equal values stay equal within a file, and cannot be guessed
	keep                   // unchanged: names, ids, places in the log, rules
	word                   // unchanged if it is one of Millrace's own words, else hidden
	data                   // JSON whose names stay and whose values are hidden
	drop                   // JSON, replaced by one hidden value
	actor                  // unchanged if it names a part of Millrace, else hidden
	counter                // the name of a limit's counter: the part behind its first / is hidden
	template               // {params.x} stays, literal parts are hidden
	values                 // hidden, except numbers of a node's label that a rule compares
	hashedKey              // hidden, except the ledger of a queue
	named                  // the text of a definition: treated by its own type
)

// tag is the tag of a field with the class of its texts: the type of a fact or a definition says
// itself what an incident file shows of it.
const tag = "redact"

// classes are the classes by their words in tags.
var classes = map[string]class{
	"hide": hide, "keep": keep, "word": word, "data": data, "drop": drop, "actor": actor, "counter": counter, "template": template,
	"values": values, "hashedKey": hashedKey, "named": named,
}

// classOf is the class of a field.
func classOf(f *reflect.StructField) class { return classes[f.Tag.Get(tag)] }

// rules describes the work of [Redactor] in words.
var rules = []string{
	"parameters, environments, labels: the names stay, the values are hashed",
	"commands, shell text, directories, users, files, hosts, people, groups: hashed",
	"messages, reasons and details in words: hashed",
	"results, inputs, late words: one hash each",
	"unique and fair keys, and the keys of limits: hashed",
	"unreadable messages: only their length",
	"fields that this version does not know: removed",
	"the hashes have a key of this file that was not kept: equal values are equal within the file, and cannot be guessed",
	"what tasks have printed: without values of 4 characters or more, and parts of 6 or more, that were hashed elsewhere in the file, and without passwords in URLs",
}

// Redactor hides confidential values in facts. It is for one goroutine.
type Redactor struct {
	key    []byte
	hidden map[string]string           // by the hidden text
	scopes map[limit.Scope]limit.Scope // of hidden counters, by the original ones
	def    task.Def                    // what the present fact defines
	// compared are the labels of nodes that a rule compares with a number.
	compared map[string]bool
}

// NewRedactor returns a redactor for a file, with a key that is not stored.
func NewRedactor(key []byte) *Redactor {
	return &Redactor{key: key, hidden: map[string]string{}, scopes: map[limit.Scope]limit.Scope{}, compared: map[string]bool{}}
}

// Rules describes in words what it does, in a file of the records that it has seen.
func (x *Redactor) Rules() []string {
	all := slices.Clone(rules)
	if len(x.compared) > 0 {
		all[0] += "; numbers stay in the labels of nodes that a rule compares: " + strings.Join(slices.Sorted(maps.Keys(x.compared)), ", ")
	}
	return all
}

// See finds out which labels of nodes a rule in a record compares with a number: their numbers stay.
// It must see all records before [Redactor.Fact] gets the first one.
func (x *Redactor) See(r *events.Record) {
	if r.IsFact() && signs().Match(r.Raw) {
		_, _ = x.Fact(r) // its walk finds them
	}
}

// signs matches the sign of a comparison, plain or as JSON may escape it.
var signs = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[<>]|\\u003[cCeE]`) })

// hash returns the replacement of a text; "" for "".
func (x *Redactor) hash(text string) string {
	if text == "" {
		return ""
	}
	if h, ok := x.hidden[text]; ok {
		return h
	}
	mac := hmac.New(sha256.New, x.key)
	mac.Write([]byte(text))
	h := "~" + hex.EncodeToString(mac.Sum(nil)[:6])
	x.hidden[strings.Clone(text)] = h
	return h
}

// Fact returns a record in the form for the file. The error says that it cannot be written in this
// form.
func (x *Redactor) Fact(r *events.Record) (events.Record, error) {
	is := *r
	switch {
	case !r.IsFact():
		is.Raw = []byte("{}")
		return is, nil
	case r.Unreadable() != "" || r.Fact.Event == nil:
		is.Raw, is.Err = fmt.Appendf(nil, "redacted: %d bytes", len(r.Raw)), errors.New("it could not be read, and its text was redacted")
		is.Fact = events.Fact{Task: r.Fact.Task, Node: r.Fact.Node}
		return is, nil
	}
	f, err := events.Decode(bytes.Clone(r.Raw)) // a copy, because the caller's shares its targets with others
	if err != nil {
		return is, err
	}
	f.Extra = nil
	x.def = f.Def
	key, scope := f.Key, f.Scope
	x.walk(reflect.ValueOf(&f).Elem())
	is.Place = x.place(r.Place, key, scope)
	if f.Scope != "" {
		f.Scope = x.scope(f.Scope)
	}
	if is.Raw, err = events.Encode(nil, &f); err != nil {
		return is, err
	}
	is.Fact, err = events.Decode(is.Raw)
	return is, err
}

// place is where the log would keep the redacted fact: keys are part of subjects, as marks.
func (x *Redactor) place(place, key string, scope limit.Scope) string {
	switch {
	case key != "":
		return strings.Replace(place, value.Mark(key), value.Mark(x.uniqueKey(key)), 1)
	case scope != "":
		return strings.Replace(place, string(scope), string(x.scope(scope)), 1)
	}
	return place
}

// scope replaces the mark of a key common to all jobs, because the key could be guessed from its
// own mark: by that of the hidden key, if a counter named it so far.
func (x *Redactor) scope(s limit.Scope) limit.Scope {
	if is, named := x.scopes[s]; named {
		return is
	}
	if mark, ok := strings.CutPrefix(string(s), "key."); ok {
		return limit.Scope("key." + value.Mark(x.hash(mark)))
	}
	return s
}

// uniqueKey redacts a unique key, except that of a queue's ledger.
func (x *Redactor) uniqueKey(key string) string {
	if strings.HasPrefix(key, "queue:") {
		return key
	}
	return x.hash(key)
}

// edition redacts the text of a definition by its own type, whatever fact holds it.
func (x *Redactor) edition(e *task.Edition) {
	if len(e.Text) == 0 {
		return
	}
	text, err := x.definition(x.def, e.Text)
	if err != nil {
		text = x.dropped(e.Text)
	}
	e.Text, e.Digest = text, task.DigestOf(text)
}

func (x *Redactor) definition(def task.Def, text []byte) ([]byte, error) {
	var of any
	switch def.Kind() {
	case task.DefJob:
		of = new(job.Job)
	case task.DefSchedule:
		of = new(schedule.Definition)
	case task.DefCalendar:
		of = new(schedule.Calendar)
	case task.DefBundle, task.DefToken:
		return text, nil // names, and digests of values that cannot be guessed
	default:
		return nil, fmt.Errorf("definitions of kind %q are not known", def.Kind())
	}
	if err := json.Unmarshal(text, of); err != nil {
		return nil, err
	}
	x.walk(reflect.ValueOf(of).Elem())
	return json.Marshal(of)
}

// walk redacts all texts below a settable value. It copies targets of pointers, because facts share
// specs.
func (x *Redactor) walk(v reflect.Value) {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer:
		if v.IsNil() {
			return
		}
		is := reflect.New(v.Elem().Type())
		is.Elem().Set(v.Elem())
		x.walk(is.Elem())
		if v.Kind() == reflect.Interface {
			is = is.Elem()
		}
		v.Set(is)
	case reflect.Slice, reflect.Map:
		x.each(v, x.walk)
	case reflect.Struct:
		x.walkStruct(v)
	}
}

// each applies do to each value of a list or map, in a copy.
func (x *Redactor) each(v reflect.Value, do func(reflect.Value)) {
	if v.IsNil() {
		return
	}
	if v.Kind() == reflect.Slice {
		all := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(all, v)
		for i := range all.Len() {
			do(all.Index(i))
		}
		v.Set(all)
		return
	}
	all := reflect.MakeMap(v.Type())
	for _, key := range v.MapKeys() {
		is := reflect.New(v.Type().Elem()).Elem()
		is.Set(v.MapIndex(key))
		do(is)
		all.SetMapIndex(key, is)
	}
	v.Set(all)
}

func (x *Redactor) walkStruct(v reflect.Value) {
	t := v.Type()
	if t.PkgPath() == "time" {
		return
	}
	if rule, ok := v.Addr().Interface().(*placement.Requirement); ok {
		if rule.Compares() {
			x.compared[rule.Key] = true
		}
		if rule.Key != placement.LabelNode { // its values are names of nodes
			rule.Values = slices.Clone(rule.Values)
			for i, text := range rule.Values {
				rule.Values[i] = x.label(rule.Key, text)
			}
		}
		return
	}
	if e, ok := v.Addr().Interface().(*task.Edition); ok {
		x.edition(e)
		return
	}
	for i := range t.NumField() {
		field := t.Field(i)
		if !field.IsExported() {
			continue
		}
		of := field.Type
		if !texts(of) {
			x.walk(v.Field(i))
			continue
		}
		x.apply(v.Field(i), classOf(&field))
	}
}

var rawType = reflect.TypeFor[json.RawMessage]()

// texts tells whether a type is a text, or a list or map of texts: such a field has a class.
func texts(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.String:
		return true
	case reflect.Slice, reflect.Pointer:
		return t == rawType || texts(t.Elem())
	case reflect.Map:
		return t.Key().Kind() == reflect.String && (texts(t.Elem()) || t.Elem().PkgPath() == "time")
	}
	return false
}

// apply treats a field by its class.
func (x *Redactor) apply(v reflect.Value, c class) {
	switch {
	case c == keep || c == named:
	case v.Kind() == reflect.Pointer:
		if !v.IsNil() {
			is := reflect.New(v.Type().Elem())
			is.Elem().Set(v.Elem())
			x.apply(is.Elem(), c)
			v.Set(is)
		}
	case v.Type() == rawType:
		if v.Len() > 0 {
			text := v.Interface().(json.RawMessage)
			if c == data {
				v.SetBytes(x.leaves(text))
			} else {
				v.SetBytes(x.dropped(text))
			}
		}
	case v.Kind() == reflect.String:
		v.SetString(x.text(v.String(), c))
	case c == values && v.Kind() == reflect.Map:
		x.labels(v)
	case v.Kind() == reflect.Map && !texts(v.Type().Elem()): // counters and their times
		if v.IsNil() {
			return
		}
		all := reflect.MakeMap(v.Type())
		for _, key := range v.MapKeys() {
			all.SetMapIndex(reflect.ValueOf(x.text(key.String(), c)).Convert(v.Type().Key()), v.MapIndex(key))
		}
		v.Set(all)
	default:
		x.each(v, func(is reflect.Value) { x.apply(is, c) })
	}
}

var (
	ownWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z][a-z_]{0,23}$`) })
	hole    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{(params|labels)\.[A-Za-z0-9_.-]+\}`) })
)

func (x *Redactor) text(text string, c class) string {
	switch c {
	case word:
		if ownWord().MatchString(text) {
			return text
		}
	case hashedKey:
		return x.uniqueKey(text)
	case actor:
		if events.IsPart(text) {
			return text
		}
	case counter:
		of, key, found := strings.Cut(text, "/")
		if !found {
			return text
		}
		own := key
		if strings.HasPrefix(of, "rate:") {
			own = limit.WithoutTime(key)
		}
		is := of + "/" + x.hash(own) + key[len(own):]
		x.scopes[limit.ScopeOf(text)] = limit.ScopeOf(is)
		return is
	case template:
		lead := ""
		if rest, common := strings.CutPrefix(text, "/"); common {
			lead, text = "/", rest
		}
		var b strings.Builder
		at := 0
		for _, found := range hole().FindAllStringIndex(text, -1) {
			b.WriteString(x.hash(text[at:found[0]]) + text[found[0]:found[1]])
			at = found[1]
		}
		return lead + b.String() + x.hash(text[at:])
	}
	return x.hash(text)
}

// labels hides the values of labels: texts, or pointers to texts.
func (x *Redactor) labels(v reflect.Value) {
	if v.IsNil() {
		return
	}
	all := reflect.MakeMap(v.Type())
	for _, key := range v.MapKeys() {
		is := reflect.New(v.Type().Elem()).Elem()
		is.Set(v.MapIndex(key))
		text := is
		if is.Kind() == reflect.Pointer && !is.IsNil() {
			text = reflect.New(is.Type().Elem()).Elem()
			text.Set(is.Elem())
			is.Set(text.Addr())
		}
		if text.Kind() == reflect.String {
			text.SetString(x.label(key.String(), text.String()))
		}
		all.SetMapIndex(key, is)
	}
	v.Set(all)
}

// label hides the value of a node's label.
func (x *Redactor) label(key, text string) string {
	if _, err := strconv.ParseFloat(text, 64); err == nil && x.compared[key] {
		return text
	}
	return x.hash(text)
}

// dropped is the replacement of a JSON value: an object that says so.
func (x *Redactor) dropped(text []byte) json.RawMessage {
	x.remember(text)
	return fmt.Appendf(nil, `{"redacted":%q,"bytes":%d}`, x.hash(string(text)), len(text))
}

// remember hides the texts of a JSON value wherever else they occur.
func (x *Redactor) remember(text []byte) { _ = x.leaves(text) }

// leaves returns a JSON value with its names and hidden values.
func (x *Redactor) leaves(text []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if d.Decode(&value) != nil {
		return fmt.Appendf(nil, `%q`, x.hash(string(text)))
	}
	is, err := json.Marshal(x.leaf(value))
	if err != nil {
		return json.RawMessage("null")
	}
	return is
}

func (x *Redactor) leaf(value any) any {
	switch v := value.(type) {
	case map[string]any:
		for name := range v {
			v[name] = x.leaf(v[name])
		}
		return v
	case []any:
		for i := range v {
			v[i] = x.leaf(v[i])
		}
		return v
	case string:
		return x.hash(v)
	case json.Number:
		return x.hash(v.String())
	case bool:
		return v
	}
	return nil
}

// leastHidden is the length from which values are hidden in output: shorter ones occur in every
// line. leastPart is the same for parts of values, such as a password within a command.
const (
	leastHidden = 4
	leastPart   = 6
)

// parts splits a text at blanks, quotes and similar characters.
func parts(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune(" \t\r\n\"'`=:;,&|<>(){}[]$?", r) })
}

// userinfo matches the user and the password of a URL in a text of JSON.
var userinfo = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(://[^\s/:@"\\]*:)((?:[^\s/@"\\]|\\u[0-9a-f]{4})+)@`)
})

// Output returns a function that hides in a batch of output all values that were hidden in facts,
// longer parts of them, and passwords in URLs.
func (x *Redactor) Output() func(*Lines) {
	seen := map[string]bool{}
	var pairs []string
	add := func(text, h string) {
		if quoted, err := json.Marshal(text); err == nil && !seen[text] {
			seen[text] = true
			pairs = append(pairs, string(quoted[1:len(quoted)-1]), h)
		}
	}
	hidden := maps.Clone(x.hidden) // hashing adds to it
	for _, text := range slices.SortedFunc(maps.Keys(hidden), func(a, b string) int { return cmp.Or(len(b)-len(a), cmp.Compare(a, b)) }) {
		if len(text) >= leastHidden { // the longest first: texts within it are covered
			add(text, hidden[text])
		}
	}
	for text := range hidden {
		for _, part := range parts(text) {
			if len(part) >= leastPart {
				add(part, x.hash(part))
			}
		}
	}
	replace := strings.NewReplacer(pairs...)
	return func(l *Lines) {
		body := l.Body
		if plain, err := json.Marshal(l.Body); err == nil { // in the spelling that is searched for
			body = plain
		}
		is := userinfo().ReplaceAllStringFunc(replace.Replace(string(body)), func(found string) string {
			part := userinfo().FindStringSubmatch(found)
			if events.HiddenText(part[2]) {
				return found
			}
			return part[1] + x.hash(part[2]) + "@"
		})
		if json.Valid([]byte(is)) {
			l.Body = json.RawMessage(is)
		} else {
			l.Body = x.dropped(l.Body)
		}
	}
}
