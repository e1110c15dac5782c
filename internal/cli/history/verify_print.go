package history

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/history/verify"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
)

// certify summarises a report.
func certify(r *verify.Report) *certificate {
	code := verifyOK
	unchecked := ""
	for _, rule := range r.Rules {
		if rule.Status == verify.StatusUnknown {
			unchecked += ", " + rule.Rule.String() + " could not be checked"
		}
	}
	unknown := r.UnknownFacts()
	switch {
	case r.Violations > 0:
		code = verifyCritical
	case r.Poison > 0 || unknown > 0 || r.Backwards > 0 || unchecked != "":
		code = verifyWarning
	}
	text := fmt.Sprintf("%s: %s to sequence %d, %s", verifyWords[code], wording.Plural(r.Facts, "event"), r.Last, wording.Plural(r.Violations, "violation"))
	if r.Poison > 0 {
		text += ", " + wording.Plural(r.Poison, "message") + " not understood"
	}
	if unknown > 0 {
		text += ", " + wording.Plural(unknown, "event") + " of unknown types"
	}
	if r.Backwards > 0 {
		text += ", " + wording.Plural(r.Backwards, "message") + " stored before an earlier one"
	}
	text += unchecked + fmt.Sprintf(" | facts=%d violations=%d tasks=%d open=%d poison=%d unknown=%d", r.Facts, r.Violations, r.Tasks, r.Open, r.Poison, unknown)
	return &certificate{Status: verifyWords[code], Summary: text, Report: r}
}

// printCertificate prints the result and ends the command with its code.
func (a *Commands) printCertificate(c *certificate, asJSON bool) error {
	if asJSON {
		if err := a.WriteJSON(c); err != nil {
			return err
		}
	} else if err := a.Print(certificateTable(c)); err != nil {
		return err
	}
	return term.ExitWith(slices.Index(verifyWords[:], c.Status))
}

func certificateTable(c *certificate) term.Table {
	r := c.Report
	t := term.Table{Title: c.Summary, Header: []string{"RULE", "STATUS", "CHECKED", "BROKEN", "PROMISE"}}
	for _, rule := range r.Rules {
		if rule.Status == verify.StatusNotAsked {
			continue
		}
		status := term.Plain(string(rule.Status))
		checked, broken := fmt.Sprintf("%d %s", rule.Checked, rule.Things), ""
		switch rule.Status {
		case verify.StatusOK:
			status.Colour = term.Green
		case verify.StatusBroken:
			status.Colour, broken = term.Red, fmt.Sprint(rule.Violations)
		case verify.StatusUnknown:
			status.Colour = term.Yellow
		}
		if rule.Checked == 0 {
			checked = ""
		}
		promise := rule.Promise
		if rule.Note != "" {
			promise += " (" + rule.Note + ")"
		}
		t.Add(term.Plain(rule.Rule.String()), status, term.Plain(checked), term.Plain(broken), term.Plain(promise))
	}
	t.Foot = append(t.Foot, fmt.Sprintf("sequences %d to %d, deadlines as of %s", r.First, r.Last, r.Now.Local().Format("2006-01-02 15:04:05")))
	if c.Archive != nil {
		t.Foot = append(t.Foot, "archive: "+c.Archive.String())
		for _, fault := range c.Archive.Faults {
			t.Foot = append(t.Foot, "archive: "+faultText(fault))
		}
	}
	for _, typ := range slices.Sorted(maps.Keys(r.Unknown)) {
		t.Foot = append(t.Foot, fmt.Sprintf("of type %s, which this version does not know: %d", term.Printable(string(typ)), r.Unknown[typ]))
	}
	if r.Poison > 0 {
		t.Foot = append(t.Foot, "not understood: "+wording.Seqs(r.PoisonSeqs, r.Poison)+"; `millrace events show SEQ` prints one")
	}
	if r.Backwards > 0 {
		t.Foot = append(t.Foot, "stored before an earlier one: "+wording.Seqs(r.BackwardsSeqs, r.Backwards)+"; was the clock of the NATS server set back, or the file altered?")
	}
	for _, f := range r.Findings {
		about := strings.TrimSpace(string(f.Task) + " " + string(f.Node))
		t.Foot = append(t.Foot, term.Printable(fmt.Sprintf("%s  %s  %s: %s; see %s", f.Rule, wording.Seqs(f.Seqs, len(f.Seqs)), about, f.What, f.Look)))
	}
	if hidden := r.Violations - len(r.Findings); hidden > 0 {
		t.Foot = append(t.Foot, fmt.Sprintf("and %d more", hidden))
	}
	return t
}
