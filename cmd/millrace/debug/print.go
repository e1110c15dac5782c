package debug

import (
	"fmt"
	"strings"
	"time"

	"millrace/cmd/millrace/term"
	"millrace/cmd/millrace/told"
	"millrace/replay"
)

// replayPrinter says what came of a command: in lines, or as an object of JSON.
type replayPrinter struct {
	a      *Commands
	asJSON bool
	person bool // somebody types, and wants to be asked
}

func (p *replayPrinter) prompt(x *replay.Session) {
	if p.person {
		fmt.Fprintf(p.a.Out, "(mr #%d) ", x.Seq())
	}
}

func (p *replayPrinter) print(answer *replay.Answer) error {
	if p.asJSON {
		return p.a.WriteLine(answer)
	}
	var lines []string
	if answer.Frame != nil && !answer.None {
		lines = p.frame(answer.Frame)
	}
	if b := answer.Set; b != nil {
		lines = append(lines, fmt.Sprintf("%d set, %s%s", b.Number, told.Plural(b.Hits, "hit"), unanswered(b)))
	}
	for _, b := range answer.Breaks {
		lines = append(lines, fmt.Sprintf("%d  %s  %s%s", b.Number, b.Text, told.Plural(b.Hits, "hit"), unanswered(b)))
	}
	if answer.Value != nil {
		lines = append(lines, string(answer.Value))
	}
	for i := range answer.Lines {
		l := &answer.Lines[i]
		lines = append(lines, told.Words(fmt.Sprintf("#%d %s %s %s", l.Seq, replayTime(l.Stored), l.Type, l.About), told.FactDetails(&l.Record), l.Why))
	}
	for _, m := range answer.Marks {
		lines = append(lines, told.Words(fmt.Sprintf("%s: #%d %s", m.Name, m.Seq, replayTime(m.Time)), m.Note))
	}
	for i := range answer.Help {
		lines = append(lines, helpLine(&answer.Help[i]))
	}
	if answer.Says != "" {
		lines = append(lines, answer.Says)
	}
	for _, line := range lines {
		if _, err := fmt.Fprintln(p.a.Out, term.Printable(line)); err != nil {
			return err
		}
	}
	return nil
}

func unanswered(b *replay.Breakpoint) string {
	if b.Unanswered == 0 {
		return ""
	}
	return fmt.Sprintf("; no answer at %s, %s", told.Plural(b.Unanswered, "fact"), b.Why)
}

func helpLine(c *replay.Command) string {
	return fmt.Sprintf("%-18s %s", strings.TrimSpace(c.Key+" "+c.Takes), c.Says)
}

// replayTime is a time of the log: of the day, for the day is that of the span.
func replayTime(at time.Time) string {
	if at.IsZero() {
		return ""
	}
	return at.Local().Format("2006-01-02 15:04:05.000")
}

// frame says what there is at a point, a line for each thing.
func (p *replayPrinter) frame(f *replay.Frame) []string {
	if f.Seq == 0 {
		return []string{fmt.Sprintf("before the span, which goes to #%d", f.To)}
	}
	head := told.Words(fmt.Sprintf("#%d %s %s %s", f.Seq, replayTime(f.Stored), f.Type, f.About), told.AttemptAndNode(&f.Record), told.FactDetails(&f.Record))
	if f.Actor != "" {
		head += "; by " + f.Actor
	}
	if f.Focus != "" {
		head += fmt.Sprintf(" (%d of %d)", f.Nth, f.Of)
	}
	lines := []string{head}
	if f.Time.After(f.Stored) {
		lines[0] = fmt.Sprintf("after #%d, at %s", f.Seq, replayTime(f.Time))
	}
	lines = append(lines, stopLines(f.Stop)...)
	for _, c := range f.Changed {
		lines = append(lines, fmt.Sprintf("  ~ %s: %s -> %s", c.Field, orNone(told.Value(c.Was)), orNone(told.Value(c.Is))))
	}
	for _, c := range f.Queues {
		lines = append(lines, fmt.Sprintf("  ~ queue %s: %s %d -> %d", c.Name, c.State, c.Was, c.Is))
	}
	for _, c := range f.Nodes {
		lines = append(lines, fmt.Sprintf("  ~ node %s: %s %d -> %d of %d", c.Name, c.State, c.Was, c.Is, c.Slots))
	}
	lines = append(lines, decisionLines(f.Decision)...)
	switch o := f.Owed; {
	case o == nil:
	case o.Before != nil && o.After != nil && *o.Before == *o.After:
		lines = append(lines, dutyLines("=", o.Of, o.After)...)
	default:
		lines = append(lines, dutyLines("-", o.Of, o.Before)...)
		lines = append(lines, dutyLines("+", o.Of, o.After)...)
	}
	return lines
}

func orNone(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}

func stopLines(s *replay.Stop) []string {
	if s == nil {
		return nil
	}
	line := told.Words(fmt.Sprintf("  break %d", s.Break), s.About, s.Why)
	if len(s.Seqs) > 0 {
		line += fmt.Sprintf("; see %v", s.Seqs)
	}
	lines := []string{line + fmt.Sprintf(" (hits: %d behind, %d ahead)", s.Behind, s.Ahead)}
	for i := range s.Others {
		lines = append(lines, stopLines(&s.Others[i])...)
	}
	return lines
}

func decisionLines(d *replay.Decision) []string {
	if d == nil {
		return nil
	}
	head := "  decided"
	if d.Rule != "" {
		head += " by rule " + d.Rule
	}
	if d.Seen > 0 {
		head += fmt.Sprintf(", nodes seen up to #%d (%d behind)", d.Seen, d.Behind)
	}
	lines := []string{head}
	for _, r := range d.Rules {
		line := fmt.Sprintf("    rule %s (%s): %s", r.Rule, r.Question, r.Answer)
		if r.Decided {
			line += " <-"
		}
		lines = append(lines, line)
	}
	for i := range d.Nodes {
		n := &d.Nodes[i]
		line := fmt.Sprintf("    %s yes", n.Node)
		if n.Rule != "" {
			line = fmt.Sprintf("    %s NO, %s", n.Node, told.Words(string(n.Rule), n.Why))
		}
		line += fmt.Sprintf(", runs %d of %d", n.Running, n.Slots)
		if n.Taken {
			line += " <-"
		}
		lines = append(lines, line)
	}
	if d.NoNode != "" {
		lines = append(lines, "    if there is none: "+d.NoNode)
	}
	return lines
}

func dutyLines(sign, of string, d *replay.Duty) []string {
	if d == nil {
		return nil
	}
	line := fmt.Sprintf("  %s %s owes on %s: %s", sign, d.Who, of, d.What)
	if !d.By.IsZero() {
		word := " by "
		if d.Look {
			word = ", looked at again by "
		}
		line += word + replayTime(d.By)
	}
	if d.Overdue {
		line += ", overdue"
	}
	if d.Else != "" {
		line += "; else " + d.Else
	}
	return []string{line}
}
