package verb

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"millrace/task"
	"millrace/task/job"
	"millrace/task/value"
)

// parseNeeds parses --needs and --needs-rule; resolve finds the task of an id, or of a part of one.
func parseNeeds(texts []string, rule string, resolve func(string) (task.ID, error)) (*task.Needs, error) {
	if len(texts) == 0 {
		if rule != "" {
			return nil, errors.New("--needs-rule says how to count --needs, and there is none")
		}
		return nil, nil
	}
	needs := &task.Needs{Rule: rule}
	for _, text := range texts {
		name, when, _ := strings.Cut(text, ":")
		id, err := resolve(name)
		if err != nil {
			return nil, fmt.Errorf("--needs: %w", err)
		}
		if when != "" && !slices.Contains(job.Whens, when) {
			return nil, fmt.Errorf("--needs: %q says when it has ended as needed: want one of %s", when, strings.Join(job.Whens, ", "))
		}
		needs.Of = append(needs.Of, task.Need{Task: id, When: when})
	}
	if err := needs.Validate(); err != nil {
		return nil, fmt.Errorf("--%w", err)
	}
	return needs, nil
}

// wantedSignal returns the signal of --signal and --signal-timeout.
func (f *RunFlags) wantedSignal() (*job.Signal, error) {
	switch {
	case f.signal != "":
		return &job.Signal{Name: f.signal, Timeout: value.Duration(f.signalBy.D)}, nil
	case f.signalBy.Given:
		return nil, errors.New("--signal-timeout says how long to wait for --signal, and there is none")
	}
	return nil, nil
}
