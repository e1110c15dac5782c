package book

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"millrace/events"
	"millrace/task"
)

// Book is what is written down of a log while it is read, and adds up to a report. It is for one goroutine.
type Book struct {
	// Checked counts what was looked at, by rule.
	Checked [end]int
	// Forgotten and Overtaken count decisions that were not judged: those that were made by what is remembered no more, and
	// those on tasks of which an offer came at the same moment.
	Forgotten, Overtaken int

	cfg   Config
	asked [end]bool

	now    *events.Record // that is read at present
	fields Differences    // in which the decision differs that was made again last

	broken    [end]int
	kept      [end]int
	unchecked [end]bool
	notes     [end][]string
	findings  []Finding
}

// Config says what is to be written down.
type Config struct {
	// Rules are those to check, and Keep is how many findings of each are kept.
	Rules []Rule
	Keep  int
	// Otherwise says that decisions are made again under other settings.
	Otherwise bool
	// Hidden tells of a value of JSON that it stands for one that was taken out; nil if nothing was.
	Hidden func(value any) bool
}

// New is a book in which nothing is written.
func New(cfg Config) *Book {
	b := &Book{cfg: cfg}
	for _, r := range cfg.Rules {
		b.asked[r] = true
	}
	return b
}

// Asked tells whether a rule is to be checked.
func (b *Book) Asked(rule Rule) bool { return b.asked[rule] }

// Turn says which record is read from now on; nil for none.
func (b *Book) Turn(r *events.Record) {
	if b.now = r; r != nil {
		b.fields = nil
	}
}

// Find keeps a finding, unless its rule was not asked for or has told enough.
func (b *Book) Find(rule Rule, f Finding) {
	if !b.asked[rule] {
		return
	}
	b.broken[rule]++
	if b.kept[rule]++; b.kept[rule] > b.cfg.Keep {
		return
	}
	f.Rule = rule
	if r := b.now; r != nil && len(f.Seqs) > 0 && f.Seqs[len(f.Seqs)-1] == r.Seq && f.Type == "" {
		f.Differs = b.fields
		f.Type, f.About, f.At, f.Job = r.Fact.Type, strings.Clone(r.Fact.About()), r.Fact.At, r.Fact.Job != ""
	}
	b.findings = append(b.findings, f)
}

// Findings are those that were kept.
func (b *Book) Findings() []Finding { return b.findings }

// Broken counts the findings of a rule, also those that were not kept.
func (b *Book) Broken(rule Rule) int { return b.broken[rule] }

// Note says of a rule what its status does not.
func (b *Book) Note(rule Rule, format string, args ...any) {
	b.notes[rule] = append(b.notes[rule], fmt.Sprintf(format, args...))
}

// Noted tells whether there is a note on a rule.
func (b *Book) Noted(rule Rule) bool { return len(b.notes[rule]) > 0 }

// CouldNot says why a rule cannot be checked.
func (b *Book) CouldNot(rule Rule, why string) {
	b.unchecked[rule] = true
	b.Note(rule, "%s", why)
}

// By is what the decision of a record was made by, zero if it names nothing.
func By(r *events.Record) task.By {
	if r.Fact.By == nil {
		return task.By{}
	}
	return *r.Fact.By
}

// Differ says in which fields a decision differs from the same one made again; "" if in none. Under other settings words that give
// the reason count for nothing. A finding about the record has the fields.
func (b *Book) Differ(was, is *events.Fact) string {
	text, all := differences(was, is, b.cfg.Hidden)
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

// Hides tells whether a text of JSON stands for one that was taken out.
func (b *Book) Hides(text json.RawMessage) bool {
	var value any
	return b.cfg.Hidden != nil && json.Unmarshal(text, &value) == nil && b.cfg.Hidden(value)
}

// Sum writes what came of the rules into a report.
func (b *Book) Sum(r *Report) {
	for _, rule := range Rules() {
		r.Rules = append(r.Rules, b.sum(rule))
		r.Violations += b.broken[rule]
	}
	if r.Findings = b.findings; r.Findings == nil {
		r.Findings = []Finding{}
	}
}

// sum is what came of a rule. Notes hold what a status does not say.
func (b *Book) sum(rule Rule) RuleReport {
	r := RuleReport{Rule: rule, Promise: rule.Promise(), Checked: b.Checked[rule], Things: promises[rule].things, Violations: b.broken[rule]}
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
