package findings

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/task"
)

// Collector collects the results while a log is read, and adds up to a report. It is for one goroutine.
type Collector struct {
	// Checked counts the checks, by rule.
	Checked [end]int
	// Forgotten and Overtaken count decisions that were not judged: Forgotten those whose inputs
	// are no longer remembered, Overtaken those on tasks that got an offer at the same moment.
	Forgotten, Overtaken int

	cfg   Config
	asked [end]bool

	now    *events.Record // the record being read
	spoilt bool           // its decision follows from nothing that could be repeated
	fields Differences    // the fields in which the last repeated decision differs

	broken    [end]int
	kept      [end]int
	unchecked [end]bool
	notes     [end][]string
	findings  []Finding
}

// Config says what to collect.
type Config struct {
	// Rules are the rules to check. Keep is how many findings of each are kept.
	Rules []Rule
	Keep  int
	// Otherwise says that decisions are repeated under other settings.
	Otherwise bool
	// Hidden is the sequence up to which the log may hide values; 0 if it hides none.
	Hidden uint64
}

// New returns an empty book.
func New(cfg Config) *Collector {
	b := &Collector{cfg: cfg}
	for _, r := range cfg.Rules {
		b.asked[r] = true
	}
	return b
}

// Asked tells whether to check a rule.
func (b *Collector) Asked(rule Rule) bool { return b.asked[rule] }

// Turn sets the record being read; nil for none.
func (b *Collector) Turn(r *events.Record) {
	if b.now, b.spoilt = r, false; r != nil {
		b.fields = nil
	}
}

// Spoilt says that the decision of the record being read follows from nothing that could be repeated:
// nothing else is found about it.
func (b *Collector) Spoilt() { b.spoilt = true }

// Find keeps a finding, unless its rule is not to be checked or has enough findings.
func (b *Collector) Find(rule Rule, f Finding) {
	if !b.asked[rule] || b.spoilt && rule == Decisions {
		return
	}
	b.broken[rule]++
	if b.kept[rule]++; b.kept[rule] > b.cfg.Keep {
		return
	}
	f.Rule = rule
	f.Seqs = slices.DeleteFunc(f.Seqs, func(seq uint64) bool { return seq == 0 }) // there is no such message
	if r := b.now; r != nil && len(f.Seqs) > 0 && f.Seqs[len(f.Seqs)-1] == r.Seq && f.Type == "" {
		f.Differs = b.fields
		f.Type, f.About, f.At, f.Job = r.Fact.Type, strings.Clone(r.Fact.About()), r.Fact.At, r.Fact.Job != ""
	}
	b.findings = append(b.findings, f)
}

// Broken counts the findings of a rule, including those that were not kept.
func (b *Collector) Broken(rule Rule) int { return b.broken[rule] }

// Any tells whether there is a finding yet.
func (b *Collector) Any() bool { return b.broken != [end]int{} }

// Note adds a remark to a rule, beside its status.
func (b *Collector) Note(rule Rule, format string, args ...any) {
	b.notes[rule] = append(b.notes[rule], fmt.Sprintf(format, args...))
}

// Noted tells whether a rule has a remark.
func (b *Collector) Noted(rule Rule) bool { return len(b.notes[rule]) > 0 }

// CouldNot records why a rule cannot be checked.
func (b *Collector) CouldNot(rule Rule, why string) {
	b.unchecked[rule] = true
	b.Note(rule, "%s", why)
}

// By returns the inputs of a record's decision, zero if it names none.
func By(r *events.Record) task.By {
	if r.Fact.By == nil {
		return task.By{}
	}
	return *r.Fact.By
}

// Differ names the fields in which a decision differs from its repetition; "" if none. Under other
// settings it ignores the words of reasons. A finding about the record gets the fields.
func (b *Collector) Differ(was, is *events.Fact) string {
	text, all := b.differences(was, is)
	if b.fields = all; !b.cfg.Otherwise || len(all) == 0 {
		return text
	}
	b.fields = slices.DeleteFunc(all, func(d Difference) bool {
		_, code := was.Event.(task.GivenUp)
		return d.Field == "detail" || d.Field == "reason" && !code
	})
	if len(b.fields) == 0 {
		return ""
	}
	return text
}

// Hides tells whether a JSON text of the record being read stands for a hidden one.
func (b *Collector) Hides(text json.RawMessage) bool {
	var value any
	return b.hiding() && json.Unmarshal(text, &value) == nil && events.Hidden(value)
}

// HidesText is [Collector.Hides] for a text.
func (b *Collector) HidesText(text string) bool { return b.hiding() && events.HiddenText(text) }

// hiding tells whether the record being read may hide values. What follows an import hides none, so
// a value that only looks hidden is compared.
func (b *Collector) hiding() bool { return b.now != nil && b.now.Seq <= b.cfg.Hidden }

// Sum writes the results of all rules into a report.
func (b *Collector) Sum(r *Report) {
	for _, rule := range Rules() {
		r.Rules = append(r.Rules, b.sum(rule))
		r.Violations += b.broken[rule]
	}
	if r.Findings = b.findings; r.Findings == nil {
		r.Findings = []Finding{}
	}
}

// sum is the result of a rule. Notes hold remarks beside the status.
func (b *Collector) sum(rule Rule) RuleReport {
	r := RuleReport{
		Rule:       rule,
		Promise:    rule.Promise(),
		Checked:    b.Checked[rule],
		Things:     promises[rule].things,
		Violations: b.broken[rule],
	}
	r.Note = strings.Join(b.notes[rule], "; ")
	if rule == Decisions {
		r.Unjudged = b.Forgotten + b.Overtaken
	}
	switch {
	case !b.asked[rule]:
		r.Status, r.Checked, r.Note = StatusNotAsked, 0, ""
	case r.Violations > 0:
		r.Status = StatusBroken
	case b.unchecked[rule]:
		r.Status = StatusUnknown
	case r.Checked == 0:
		r.Status = StatusNothing
	default:
		r.Status = StatusOK
	}
	return r
}
