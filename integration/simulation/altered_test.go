package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"millrace/events"
	"millrace/history/verify"
)

// Whoever removes a fact of a log, or alters a value in one, is found, or [unseen] says
// why not. Any alteration is judged without a crash.
func TestAlteredLogs(t *testing.T) {
	covered := uncovered()
	logs := alterable(t)
	var all []alteration // a short run has three of each kind
	var mu sync.Mutex    // guards missed
	missed := map[string]string{}
	tried := map[string]int{}
	for _, a := range logs {
		if f := a.judged(t, -1, nil); f != "" {
			t.Errorf("%s, unaltered: %s", a.name, f)
			continue
		}
		a.alterations(t, func(what string, i int, other *events.Record) {
			if tried[what]++; tries() > 1 || tried[what] <= 3 {
				all = append(all, alteration{a, what, i, other})
			}
		})
	}
	each(uint64(len(all)), func(n uint64) bool {
		is := all[n]
		if is.of.judged(t, is.at, is.other) == "" {
			mu.Lock()
			defer mu.Unlock()
			missed[is.what] = fmt.Sprintf("%s, #%d", is.of.name, is.of.records[is.at].Seq)
		}
		return true
	})
	open := 0
	for _, what := range slices.Sorted(maps.Keys(missed)) {
		typ, field, _ := strings.Cut(what, " ")
		if !covered[what] && !covered[everyFact+" "+field] {
			t.Errorf("%s of %s is altered, verify finds nothing (%s), and unseen does not say why", field, typ, missed[what])
		}
		open++
	}
	t.Logf("%d alterations of %d logs, %d kinds of them not found", len(all), len(logs), open)
}

// alteration is a log with another record at a place, or with none there.
type alteration struct {
	of    *altering
	what  string
	at    int
	other *events.Record
}

// altering is one log, to judge with one fact altered or removed.
type altering struct {
	name    string
	records []events.Record
	cfg     verify.Config
	unknown int // facts of types that this version does not know
}

// alterable are the logs to alter: histories of all kinds, and those of the corpus without fault.
func alterable(t *testing.T) (all []*altering) {
	add := func(name string, records []events.Record, cfg verify.Config) {
		a := &altering{name: name, records: records, cfg: cfg}
		for i := range records {
			if a.fact(i) == nil && records[i].IsFact() && records[i].Err == nil {
				a.unknown++
			}
		}
		all = append(all, a)
	}
	for _, v := range []struct {
		name string
		of   variant
	}{
		{"plain", variant{}}, {"crowded", variant{crowded: true}}, {"windowed", variant{windowed: true}}, {"roomy", variant{roomy: true}},
		{"thrifty", variant{thrifty: true}}, {"families", longFamilies}, {"values", variant{families: true, values: true, length: longFamilies.length}},
	} {
		for seed := range max(*historiesFlag/2000, 1) { // each is judged some 750 times
			h := play(t, *firstFlag+seed, v.of)
			h.report(t)
			honest := slices.DeleteFunc(slices.Clone(h.records), func(r events.Record) bool { return r.Fact.Actor == stranger && r.Fact.Event != nil })
			add(fmt.Sprintf("%s, seed %d", v.name, *firstFlag+seed), ofExport(t, honest), verify.Config{Settings: bounds, Margin: margin})
		}
	}
	for _, name := range []string{"session", "troubled"} {
		was, _ := ofCorpus(t, name)
		add(name, was, verify.Config{})
	}
	return all
}

// fact is the body of the record at i; nil if that is no fact that this version knows.
func (a *altering) fact(i int) (body map[string]any) {
	if r := &a.records[i]; !r.IsFact() || r.Err != nil || r.Fact.Event == nil {
		return nil
	}
	d := json.NewDecoder(bytes.NewReader(a.records[i].Raw))
	d.UseNumber()
	if d.Decode(&body) != nil {
		return nil
	}
	return body
}

// tries is how often one alteration is tried in a log.
func tries() int {
	if *historiesFlag > usualHistories {
		return 2
	}
	return 1
}

// alterations calls try with each fact removed (nil), and with each value of each fact changed or
// left out, but only so often with those of the same kind.
func (a *altering) alterations(t *testing.T, try func(what string, i int, other *events.Record)) {
	tried, seen := map[string]int{}, map[string][]any{}
	for i := range a.records {
		for _, l := range leaves(a.fact(i)) {
			what := string(a.records[i].Fact.Type) + " " + l.path
			if len(seen[what]) < 4 && !slices.ContainsFunc(seen[what], func(v any) bool { return fmt.Sprint(v) == fmt.Sprint(l.value) }) {
				seen[what] = append(seen[what], l.value)
			}
		}
	}
	for i := range a.records {
		body := a.fact(i)
		if body == nil {
			continue
		}
		typ := string(a.records[i].Fact.Type)
		if tried[typ]++; tried[typ] <= 5*tries() {
			try(typ+" removed", i, nil)
		}
		for n, l := range leaves(body) {
			top, _, _ := strings.Cut(strings.TrimSuffix(l.path, "[]"), ".")
			if top == "" || top == "type" {
				continue
			}
			for how, change := range map[string]func(leaf){
				"drop ":  func(l leaf) { l.drop() },
				"alter ": func(is leaf) { is.set(another(l.value, seen[typ+" "+l.path])) },
			} {
				if tried[how+typ+" "+l.path]++; tried[how+typ+" "+l.path] > tries() {
					continue
				}
				other := a.fact(i)
				change(leaves(other)[n])
				if is := a.with(t, i, other); is.Err != nil || !says(is, &a.records[i]) {
					try(typ+" "+strings.TrimSuffix(top, "[]"), i, is)
				}
			}
		}
	}
}

// with is the record at i with another body.
func (a *altering) with(t *testing.T, i int, body map[string]any) *events.Record {
	raw, err := json.Marshal(body)
	if err != nil {
		t.Fatal(err)
	}
	r := a.records[i]
	r.Raw = raw
	return &ofExport(t, []events.Record{r})[0]
}

// says tells whether two facts say the same.
func says(one, two *events.Record) bool {
	a, err := events.Encode(nil, &one.Fact)
	b, wrong := events.Encode(nil, &two.Fact)
	return err == nil && wrong == nil && bytes.Equal(a, b)
}

// judged returns what verify finds in the log with another record at i, or with none there; "" for
// nothing.
func (a *altering) judged(t *testing.T, i int, other *events.Record) string {
	if other != nil && other.Err != nil {
		return "it cannot be read"
	}
	v := verify.New(a.cfg)
	for n := range a.records {
		r := &a.records[n]
		if n == i {
			r = other
		}
		if r == nil {
			continue
		}
		if err := v.Add(r); err != nil {
			t.Fatal(err)
		}
		if v.Found() { // most is found where it is, long before the end
			break
		}
	}
	r := v.Report(time.Time{})
	switch {
	case len(r.Findings) > 0:
		return fmt.Sprint(r.Findings[0])
	case r.UnknownFacts() > a.unknown:
		return "of an unknown type"
	}
	return ""
}

// leaf is a value in the body of a fact, or a part of it.
type leaf struct {
	path  string // names of members, with [] for elements of lists
	value any
	set   func(any)
	drop  func()
}

// leaves are the values in v, in the same order for the same v.
func leaves(v any) (all []leaf) {
	var visit func(l leaf)
	visit = func(l leaf) {
		switch v := l.value.(type) {
		case map[string]any:
			for _, name := range slices.Sorted(maps.Keys(v)) {
				visit(leaf{strings.TrimPrefix(l.path+"."+name, "."), v[name], func(is any) { v[name] = is }, func() { delete(v, name) }})
			}
		case []any:
			for i := range v {
				set := func(is any) { v[i] = is }
				visit(leaf{l.path + "[]", v[i], set, func() { set(nil) }})
			}
		}
		all = append(all, l)
	}
	visit(leaf{value: v})
	return all
}

// another is another value of the same kind: one of those seen at the same path, or one made up.
func another(v any, seen []any) any {
	for _, other := range seen {
		if fmt.Sprint(other) != fmt.Sprint(v) {
			return other
		}
	}
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Int64(); err == nil {
			return f + 1
		}
		return 7.5
	case bool:
		return !v
	case string:
		if at, err := time.Parse(time.RFC3339Nano, v); err == nil {
			return at.Add(time.Hour)
		}
		if d, err := time.ParseDuration(v); err == nil {
			return (d + time.Minute).String()
		}
		return v + "x"
	}
	return v
}
