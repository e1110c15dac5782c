package history

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"millrace/history/incident"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/inspect"
)

// damaged is the exit code for a file with missing parts.
const damaged = 3

func (a *IncidentCommands) show() *cobra.Command {
	var o settings.Output
	var bound inspect.Bound
	c := &cobra.Command{
		Use: "show FILE", Aliases: []string{"view", "info"},
		Short: "Print what an incident file holds, and what is missing",
		Long: `Prints the span, the settings, the rules by which values were hashed, the notes, and what is missing.
Ends with 3 if something is missing, else with 0.`,
		Args: settings.Takes(1, 1, "file"),
	}
	bound.Flag(c.Flags())
	o.Flags(c)
	c.RunE = func(_ *cobra.Command, args []string) error {
		f, err := readIncident(args[0], bound)
		if err != nil {
			return err
		}
		if o.JSON() {
			err = a.WriteJSON(struct {
				incident.Manifest
				Notes   []incident.Note    `json:"notes,omitempty"`
				Missing []incident.Missing `json:"missing,omitempty"`
				// Incomplete are things with missing facts.
				Incomplete []string `json:"incomplete,omitempty"`
			}{f.Manifest, f.Notes, f.Missing, f.Incomplete})
		} else {
			err = a.Print(table(f))
		}
		if err == nil && len(f.Missing) > 0 {
			return term.ExitWith(damaged)
		}
		return err
	}
	return c
}

// readIncident opens an incident file.
func readIncident(name string, bound inspect.Bound) (*incident.File, error) {
	file, err := os.Open(name)
	if err != nil {
		return nil, noFile(err)
	}
	defer file.Close()
	return bound.Read(name, file)
}

func noFile(err error) error {
	return &term.Fault{Code: term.ExitNotFound, Err: err, Hint: term.Hint("`millrace incident export` writes an incident file")}
}

func table(f *incident.File) term.Table {
	m := &f.Manifest
	t := term.Table{Title: "Incident file"}
	t.Field("around", m.Around)
	t.Field("because", m.Why)
	t.Field("from", pointText(m.From))
	t.Field("to", pointText(m.To))
	t.Field("events", fmt.Sprintf("%d, %d of the log are left out", m.Facts, m.Left))
	t.Field("tasks", fmt.Sprintf("%d of %d that the log has until then", m.Tasks, m.AllOf))
	if m.Outputs {
		t.Field("output", strconv.Itoa(m.Output)+" batches")
	}
	t.Field("written", fmt.Sprintf("%s by millrace %s", m.Made.Local().Format("2006-01-02 15:04:05"), m.Millrace))
	t.Field("leases", m.AckWait)
	for _, name := range slices.Sorted(maps.Keys(m.Settings)) {
		t.Field(name, m.Settings[name])
	}
	t.Field("details", string(m.Details))
	if m.Raw {
		t.Field("redacted", "nothing")
	}
	for i, rule := range m.Rules {
		name := "redacted"
		if i > 0 {
			name = " "
		}
		t.Add(term.Dim(name), term.Plain(rule))
	}
	for _, n := range f.Notes {
		t.Add(term.Dim("note "+n.Name), term.Plain(strings.TrimSpace(fmt.Sprintf("#%d %s", n.Seq, n.Text))))
	}
	for _, missing := range f.Missing {
		t.Add(term.Dim("missing"), term.Tinted(wording.Missing(missing), term.Red))
	}
	if len(f.Incomplete) > 0 {
		t.Field("incomplete", strings.Join(f.Incomplete, ", "))
	}
	return t
}

func pointText(p incident.Point) string {
	if p.Seq == 0 {
		return ""
	}
	return fmt.Sprintf("#%d %s", p.Seq, p.Stored.Local().Format("2006-01-02 15:04:05.000"))
}
