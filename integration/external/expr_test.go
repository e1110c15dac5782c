package external

import (
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/promql/parser"

	"millrace/internal/metrics"
	"millrace/task"
	"millrace/task/node"
)

// scrapeLabels are the labels that Prometheus adds to every series.
var scrapeLabels = []string{"instance", "job"}

// foreign are series that are not Millrace's own: Prometheus's, and those of
// the collector of process figures.
var foreign = []string{"up", "process_resident_memory_bytes", "go_goroutines"}

// families are the metrics of Millrace, by the names of their series.
func families() map[string]*metrics.Family {
	all := map[string]*metrics.Family{}
	for _, f := range metrics.Families {
		if f.Kind != metrics.Distribution {
			all[f.Name] = f
			continue
		}
		for _, suffix := range []string{"_bucket", "_sum", "_count"} {
			all[f.Name+suffix] = f
		}
	}
	return all
}

// given are label values that Millrace has from the start, by family and label.
func given() map[string][]string {
	values := map[string][]string{}
	add := func(f *metrics.Family, _ float64, _ *metrics.Histogram, labels ...string) {
		for i, name := range f.Labels {
			values[f.Name+" "+name] = append(values[f.Name+" "+name], labels[i])
		}
	}
	metrics.NewFold(0, []node.Node{{ID: "n1"}}, nil, metrics.NewQueues()).Collect(add)
	metrics.NewLoops("sweep", "presence").Collect(add)
	for _, s := range task.States() {
		add(metrics.Tasks, 0, nil, "default", s.String())
	}
	for _, outcome := range []string{"ok", "error"} { // internal/observe/worker.go
		add(metrics.WorkerRenewals, 0, nil, outcome)
	}
	return values
}

var language = parser.NewParser(parser.Options{})

// problems says what is wrong with an expression: it names a series that does not exist, or a label
// that the series lacks, or a value that the label never has.
func problems(expr string) []string {
	parsed, err := language.ParseExpr(expr)
	if err != nil {
		return []string{err.Error()}
	}
	known, values := families(), given()
	var found []string
	say := func(format string, args ...any) { found = append(found, fmt.Sprintf(format, args...)) }
	has := slices.Clone(scrapeLabels) // the labels of all that is asked for
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		s, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		f := known[s.Name]
		if f == nil && !slices.Contains(foreign, s.Name) {
			say("there is no series %s", s.Name)
			return nil
		}
		mine := slices.Clone(scrapeLabels)
		if f != nil {
			mine = append(mine, f.Labels...)
			if strings.HasSuffix(s.Name, "_bucket") {
				mine = append(mine, "le")
			}
		}
		has = append(has, mine...)
		for _, m := range s.LabelMatchers {
			if m.Name == model.MetricNameLabel {
				continue
			}
			if !slices.Contains(mine, m.Name) {
				say("%s has no label %s", s.Name, m.Name)
			} else if f != nil {
				have, bounded := values[f.Name+" "+m.Name]
				if bounded && !slices.ContainsFunc(have, m.Matches) {
					say("no %s of %s can be %s", m.Name, s.Name, m.Value)
				}
			}
		}
		return nil
	})
	asks := func(what string, names []string) {
		for _, name := range names {
			if !slices.Contains(has, name) {
				say("%s by %s, which nothing here has", what, name)
			}
		}
	}
	parser.Inspect(parsed, func(n parser.Node, _ []parser.Node) error {
		switch n := n.(type) {
		case *parser.AggregateExpr:
			asks("it groups", n.Grouping)
		case *parser.BinaryExpr:
			if n.VectorMatching != nil {
				asks("it matches", n.VectorMatching.MatchingLabels)
			}
		}
		return nil
	})
	return found
}
