package metrics

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var familyName = regexp.MustCompile(`\bmillrace_[a-z_]+[a-z]\b`)

// The shipped alerts, dashboards and docs name only existing families, and explain each. The tests
// in examples/monitoring, a separate module, check further details.
func TestFamiliesAreNamed(t *testing.T) {
	for _, path := range []string{"../../examples/monitoring/prometheus/alerts.yml", "../../examples/monitoring/grafana/millrace.json", "../../docs/metrics.md", "../../docs/alerts.md"} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		named := familyName.FindAllString(string(text), -1)
		for _, name := range named {
			if !slices.ContainsFunc(Families, func(f *Family) bool {
				suffix, ok := strings.CutPrefix(name, f.Name)
				return ok && (suffix == "" || f.Kind == Distribution && slices.Contains([]string{"_bucket", "_sum", "_count"}, suffix))
			}) {
				t.Errorf("%s: there is no %s", path, name)
			}
		}
		if !strings.HasSuffix(path, "metrics.md") {
			continue
		}
		for _, f := range Families {
			if !slices.Contains(named, f.Name) {
				t.Errorf("%s: it does not explain %s", path, f.Name)
			}
		}
	}
}
