package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"millrace/events/jet/rights"
	"millrace/integration/harness"
	"millrace/internal/cli/settings"
	"millrace/internal/metrics"
	"millrace/internal/testkit"
	"millrace/service/httpapi"
)

// The reference in docs is what the program says of itself.
func TestReference(t *testing.T) {
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // no settings file
	testkit.Reference(t, "../../docs/cli.md", "commands", commandReference())
	testkit.Reference(t, "../../docs/http.md", "requests", requestReference(t))
	testkit.Reference(t, "../../docs/settings.md", "settings", settingReference(t))
	testkit.Reference(t, "../../docs/metrics.md", "metrics", metricReference())
}

// columns is a block of lines whose cells stand below each other.
func columns(rows [][]string) string {
	var widths []int
	for _, row := range rows {
		for i, cell := range row {
			if i == len(widths) {
				widths = append(widths, 0)
			}
			widths[i] = max(widths[i], len(cell))
		}
	}
	var b strings.Builder
	b.WriteString("```\n")
	for _, row := range rows {
		line := ""
		for i, cell := range row {
			line += fmt.Sprintf("%-*s  ", widths[i], cell)
		}
		b.WriteString(strings.TrimRight(line, " ") + "\n")
	}
	return b.String() + "```\n"
}

func commandReference() string {
	var rows [][]string
	harness.Each(testRoot(), func(c *cobra.Command) {
		_, path, _ := strings.Cut(c.CommandPath(), " ")
		for at := c; at != nil; at = at.Parent() {
			if at.Hidden {
				return
			}
		}
		if path == "" || strings.HasPrefix(path, "task data ") || c.HasAvailableSubCommands() || c.IsAdditionalHelpTopicCommand() || c.Name() == "help" || strings.HasPrefix(path, "completion ") {
			return
		}
		if _, args, ok := strings.Cut(strings.TrimSuffix(c.Use, " [flags]"), " "); ok {
			path += " " + args
		}
		rows = append(rows, []string{path, c.Short})
	})
	slices.SortStableFunc(rows, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return columns(rows)
}

func requestReference(t *testing.T) string {
	text, err := json.Marshal(httpapi.Document("0.0.0"))
	if err != nil {
		t.Fatal(err)
	}
	var doc struct {
		Paths map[string]map[string]struct {
			OperationID, Summary string
		}
	}
	if err := json.Unmarshal(text, &doc); err != nil {
		t.Fatal(err)
	}
	var rows [][]string
	for path, methods := range doc.Paths {
		for method, o := range methods {
			verb := o.OperationID
			if parts := strings.SplitN(verb, ".", 3); len(parts) == 3 { // a second route to the same verb
				verb = parts[0] + "." + parts[1]
			}
			access := string(rights.Verb(verb).Access())
			rows = append(rows, []string{strings.ToUpper(method), strings.TrimPrefix(path, "/api/v1"), verb, cmp.Or(access, "-"), o.Summary})
		}
	}
	slices.SortFunc(rows, func(a, b []string) int { return cmp.Or(cmp.Compare(a[1], b[1]), cmp.Compare(a[0], b[0])) })
	return columns(rows)
}

func settingReference(t *testing.T) string {
	root := testRoot()
	reads := func(process, flag string) string {
		c, _, err := root.Find([]string{process})
		if err != nil || c.Flags().Lookup(flag) == nil {
			t.Fatalf("%s has no --%s: %v", process, flag, err)
		}
		if c.Flags().Lookup(flag).Hidden {
			return ""
		}
		return process
	}
	defaults := func(profile string) *settings.Values {
		s, _, err := settings.Load("", nil, profile)
		if err != nil {
			t.Fatal(err)
		}
		return &s
	}
	dev, prod := defaults(settings.Dev), defaults(settings.Prod)
	short := strings.NewReplacer("h0m0s", "h", "m0s", "m")
	var b strings.Builder
	b.WriteString("| setting | default | read by | meaning |\n|---|---|---|---|\n")
	for i := range settings.All {
		d := &settings.All[i]
		by := slices.DeleteFunc([]string{reads("server", d.Flag()), reads("worker", d.Flag())}, func(process string) bool { return process == "" })
		value := d.Text(prod)
		if other := d.Text(dev); other != value {
			value += "; dev " + other
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", d.Name, short.Replace(value), strings.Join(by, ", "), d.Usage)
	}
	return b.String()
}

func metricReference() string {
	kinds := map[metrics.Kind]string{metrics.Distribution: " (histogram)"} // names of counters, and no others, end in _total
	var b strings.Builder
	b.WriteString("| figure | meaning |\n|---|---|\n")
	for _, f := range metrics.Families {
		name := f.Name
		if len(f.Labels) > 0 {
			name += "{" + strings.Join(f.Labels, ",") + "}"
		}
		fmt.Fprintf(&b, "| `%s`%s | %s |\n", name, kinds[f.Kind], strings.ReplaceAll(f.Help, "|", `\|`))
	}
	return b.String()
}
