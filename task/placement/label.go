package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/task/value"
)

// ParseLabels reads labels of nodes and tasks as people type them: name=value, and several with
// commas between them, each name once.
func ParseLabels(texts []string) (map[string]string, error) {
	if len(texts) == 0 {
		return nil, nil
	}
	all := map[string]string{}
	for _, text := range texts {
		for one := range strings.SplitSeq(text, ",") {
			name, value, ok := strings.Cut(strings.TrimSpace(one), "=")
			if !ok || name == "" {
				return nil, fmt.Errorf("%q: want name=value%s", one, commas(text))
			}
			if _, twice := all[name]; twice {
				return nil, fmt.Errorf("%s is there twice", name)
			}
			all[name] = value
		}
	}
	return all, nil
}

func commas(text string) string {
	if strings.Contains(text, ",") {
		return fmt.Sprintf("; a comma separates labels, and no value has one (%q)", text)
	}
	return ""
}

// ValidLabels refuses labels of tasks that [ParseLabels] could not name.
func ValidLabels(labels map[string]string) (err error) {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		err = value.JoinFaults(err, value.Under("labels: ", ValidLabel(name, labels[name])))
	}
	return err
}

// ValidLabel refuses a label that [ParseLabels] could not name.
func ValidLabel(name, text string) error {
	switch {
	case name == "":
		return errors.New("a label has no name")
	case strings.ContainsAny(name, ",="):
		return fmt.Errorf("the label %q: want a name without commas and =", name)
	case strings.TrimSpace(name+"="+text) != name+"="+text:
		return fmt.Errorf("the label %q has the value %q: want no spaces before the name or behind the value", name, text)
	case strings.Contains(text, ","):
		return fmt.Errorf("the label %s has the value %q: want one without commas, which separate labels", name, text)
	}
	return nil
}
