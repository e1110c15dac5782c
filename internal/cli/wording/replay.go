package wording

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"millrace/history/replay"
	"millrace/task/value"
)

// Clocked formats a time of the log for stepping through it.
type Clocked func(at time.Time) string

// PointTime is a time of the log with its day.
func PointTime(at time.Time) string { return pointTime(at, "2006-01-02 15:04:05.000") }

func pointTime(at time.Time, layout string) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format(layout)
}

// PointClock formats a time of the log beside another one: with its day only if that differs.
func PointClock(beside time.Time) Clocked {
	day := pointTime(beside, time.DateOnly)
	return func(at time.Time) string {
		if pointTime(at, time.DateOnly) == day {
			return pointTime(at, "15:04:05.000")
		}
		return PointTime(at)
	}
}

// PointFact describes the fact at a point, or before it.
func PointFact(f *replay.Frame, clock Clocked) string {
	if f.Seq == 0 {
		return fmt.Sprintf("before the span, which goes to #%d", f.To)
	}
	if f.Time.After(f.Stored) {
		return fmt.Sprintf("after #%d, at %s", f.Seq, clock(f.Time))
	}
	head := Words(fmt.Sprintf("#%d %s %s %s", f.Seq, clock(f.Stored), f.Type, f.About), AttemptAndNode(&f.Record), FactDetails(&f.Record))
	if f.Actor != "" {
		head += "; by " + f.Actor
	}
	if f.Focus != "" {
		head += fmt.Sprintf(" (%d of %d)", f.Nth, f.Of)
	}
	return head
}

// Stopped says why a point is shown.
func Stopped(s *replay.Stop) []string {
	if s == nil {
		return nil
	}
	line := Words(fmt.Sprintf("break %d", s.Break), s.About, Clocks(s.Why))
	if len(s.Seqs) > 0 {
		line += "; see " + Seqs(s.Seqs, len(s.Seqs))
	}
	lines := []string{line + fmt.Sprintf(" (hits: %d behind, %d ahead)", s.Behind, s.Ahead)}
	for i := range s.Others {
		lines = append(lines, Stopped(&s.Others[i])...)
	}
	return lines
}

// Changes says what a fact has changed.
func Changes(f *replay.Frame, clock Clocked) []string {
	var lines []string
	for _, c := range f.Changed {
		lines = append(lines, fmt.Sprintf("~ %s: %s -> %s", c.Field, orNothing(clockedValue(c.Field, c.Was, clock)), orNothing(clockedValue(c.Field, c.Is, clock))))
	}
	for _, c := range f.Queues {
		lines = append(lines, fmt.Sprintf("~ queue %s: %s %d -> %d", c.Name, c.State, c.Was, c.Is))
	}
	for _, c := range f.Nodes {
		lines = append(lines, fmt.Sprintf("~ node %s: %s %d -> %d of %d", c.Name, c.State, c.Was, c.Is, c.Slots))
	}
	return lines
}

func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

// Decided says by what a decision was made, and below that what each rule and node answered.
func Decided(d *replay.Decision) (head string, below []string) {
	if d == nil {
		return "", nil
	}
	head = "decided"
	if d.Rule != "" {
		head += " by rule " + d.Rule
	}
	if d.Seen > 0 {
		head += fmt.Sprintf(", log known up to #%d (%d behind)", d.Seen, d.Behind)
	}
	for _, r := range d.Rules {
		line := fmt.Sprintf("rule %s (%s): %s", r.Rule, r.Question, Clocks(r.Answer))
		if r.Decided {
			line += " <-"
		}
		below = append(below, line)
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		line := fmt.Sprintf("%s yes", n.Node)
		if n.Rule != "" {
			line = fmt.Sprintf("%s NO, %s", n.Node, Words(string(n.Rule), Clocks(n.Why)))
		}
		line += fmt.Sprintf(", runs %d of %d", n.Running, n.Slots)
		if n.Taken {
			line += " <-"
		}
		below = append(below, line)
	}
	if d.NoNode != "" {
		below = append(below, "if there is none: "+d.NoNode)
	}
	if len(below) == 0 && head == "decided" && Inputs(d) == "" { // a claim of a task that did not wait
		return "", nil
	}
	return head, below
}

// Inputs says what else a decision depended on, by the names in its field by; "" for nothing.
func Inputs(d *replay.Decision) string {
	if d == nil || d.By == nil {
		return ""
	}
	rest := *d.By
	rest.Rule, rest.Seen = "", 0
	text, err := value.JSON(rest)
	var fields map[string]json.RawMessage
	if errors.Join(err, json.Unmarshal(text, &fields)) != nil || len(fields) == 0 {
		return ""
	}
	var all []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		all = append(all, name+" "+Clocks(string(fields[name])))
	}
	return "from " + strings.Join(all, ", ")
}

// Point describes a point, in one line per thing.
func Point(f *replay.Frame, clock Clocked) []string {
	lines := []string{PointFact(f, clock)}
	add := func(indent string, more ...string) {
		for _, line := range more {
			lines = append(lines, indent+line)
		}
	}
	add("  ", Stopped(f.Stop)...)
	add("  ", Changes(f, clock)...)
	if head, below := Decided(f.Decision); head != "" {
		add("  ", head)
		add("    ", below...)
		if from := Inputs(f.Decision); from != "" {
			add("    ", from)
		}
	}
	add("  ", Owed(f.Owed, clock)...)
	if f.Limit != nil {
		add("  ", Counter(f.Limit, f.Time))
	}
	return lines
}

// Owed describes the duties before a fact and after it.
func Owed(o *replay.Owed, clock Clocked) []string {
	switch {
	case o == nil:
		return nil
	case o.Before != nil && o.After != nil && *o.Before == *o.After:
		return owes("=", o.Of, o.After, clock)
	}
	return append(owes("-", o.Of, o.Before, clock), owes("+", o.Of, o.After, clock)...)
}

func owes(sign, of string, d *replay.Duty, clock Clocked) []string {
	if d == nil {
		return nil
	}
	line := fmt.Sprintf("%s %s owes on %s: %s", sign, d.Who, of, Clocks(d.What))
	if !d.By.IsZero() {
		word := " by "
		if d.Look {
			word = ", looked at again by "
		}
		line += word + clock(d.By)
	}
	if d.Overdue {
		line += ", overdue"
	}
	if d.Else != "" {
		line += "; else " + Clocks(d.Else)
	}
	return []string{line}
}

// Breaks lists breakpoints.
func Breaks(all []*replay.Breakpoint) []string {
	var lines []string
	for _, b := range all {
		lines = append(lines, fmt.Sprintf("%d  %s  %s%s", b.Number, b.Text, Plural(b.Hits, "hit"), unanswered(b)))
	}
	return lines
}

func unanswered(b *replay.Breakpoint) string {
	if b.Unanswered == 0 {
		return ""
	}
	return fmt.Sprintf("; no answer at %s, %s", Plural(b.Unanswered, "event"), b.Why)
}

// Marks lists marks.
func Marks(all []replay.Mark, clock Clocked) []string {
	var lines []string
	for _, m := range all {
		lines = append(lines, Words(strings.TrimSpace(fmt.Sprintf("%s: #%d %s", m.Name, m.Seq, clock(m.Time))), m.Note))
	}
	return lines
}

// Answered describes the result of a command, without the point.
func Answered(a *replay.Answer, clock Clocked) []string {
	var lines []string
	if b := a.Set; b != nil {
		lines = append(lines, fmt.Sprintf("%d set, %s%s", b.Number, Plural(b.Hits, "hit"), unanswered(b)))
	}
	lines = append(lines, Breaks(a.Breaks)...)
	if a.Value != nil {
		lines = append(lines, string(a.Value))
	}
	for i := range a.Lines {
		l := &a.Lines[i]
		lines = append(lines, Words(fmt.Sprintf("#%d %s %s %s", l.Seq, clock(l.Stored), l.Type, l.About), FactDetails(&l.Record), l.Why))
	}
	lines = append(lines, Marks(a.Marks, clock)...)
	for i := range a.Help {
		lines = append(lines, ReplayCommand(&a.Help[i]))
	}
	if a.Says != "" {
		lines = append(lines, a.Says)
	}
	return lines
}

// ReplayCommand describes a command of a session.
func ReplayCommand(c *replay.Command) string {
	return fmt.Sprintf("%-18s %s", strings.TrimSpace(c.Key+" "+c.Takes), c.Says)
}
