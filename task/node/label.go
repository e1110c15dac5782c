package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"millrace/task/job"
	"millrace/task/placement"
)

// Label changes labels of a node, over those that its worker announces: a value sets one, nil
// removes it. It survives restarts of the worker.
type Label struct {
	Labels map[string]*string
	Reason string
}

// Labelled records changes of labels.
type Labelled struct {
	Labels map[string]*string `json:"labels" redact:"values"`
	Reason string             `json:"reason,omitzero" redact:"hide"`
}

func (Label) isCommand()  {}
func (Labelled) isEvent() {}

// label keeps the changes that have an effect.
func (n *Node) label(c Label) (Event, error) {
	if err := n.exists(); err != nil {
		return nil, err
	}
	changes := map[string]*string{}
	for name, value := range c.Labels {
		if value != nil {
			if err := ValidLabels(map[string]string{name: *value}); err != nil {
				return nil, err
			}
		}
		if ownLabel(name) {
			return nil, fmt.Errorf("the label %q is the node's own word: %w", name, ErrOwnLabel)
		}
		now, is := n.Labels[name]
		if is != (value != nil) || is && now != *value {
			changes[name] = value
		}
	}
	if len(changes) == 0 {
		return nil, nil
	}
	return Labelled{Labels: changes, Reason: c.Reason}, nil
}

// ValidLabels refuses labels that no selector could name, with [ErrBadLabel].
func ValidLabels(labels map[string]string) error {
	for _, name := range slices.Sorted(maps.Keys(labels)) {
		err := placement.ValidLabel(name, labels[name])
		if err == nil {
			err = placement.Selector{{Key: name, Op: placement.OpIn, Values: []string{labels[name]}}}.Validate()
		}
		if err != nil {
			return fmt.Errorf("%w: %w", ErrBadLabel, err)
		}
	}
	return nil
}

// ErrBadLabel refuses a label that no selector could name.
var ErrBadLabel = errors.New("this cannot be a label")

// ErrOwnLabel refuses to change a label that describes what the node is.
var ErrOwnLabel = errors.New("it cannot be changed")

// relabel records changes, and the sum of all changes.
func (n *Node) relabel(changes map[string]*string) {
	if n.Relabels == nil {
		n.OwnLabels = n.Labels
	}
	all := maps.Clone(n.Relabels)
	if all == nil {
		all = map[string]*string{}
	}
	maps.Copy(all, changes)
	n.Relabels = all
	n.addLabels()
}

// addLabels combines the worker's labels with the changes.
func (n *Node) addLabels() {
	if n.Relabels == nil {
		return
	}
	labels := maps.Clone(n.OwnLabels)
	if labels == nil {
		labels = map[string]string{}
	}
	for name, value := range n.Relabels {
		if value == nil {
			delete(labels, name)
		} else {
			labels[name] = *value
		}
	}
	n.Labels = labels
}

// ownLabel tells whether a label describes what the node is.
func ownLabel(name string) bool {
	return name == placement.LabelNode || name == placement.LabelSlots || job.IsMeans(name)
}

// Selectable returns the labels that selectors see: the node's labels, its name and slots, and what
// it has announced that it can run.
func (n *Node) Selectable() map[string]string {
	labels := make(map[string]string, len(n.Labels)+len(n.Handlers)+3)
	for name, value := range n.Labels {
		if !ownLabel(name) {
			labels[name] = value
		}
	}
	labels[placement.LabelNode], labels[placement.LabelSlots] = string(n.ID), strconv.Itoa(n.Slots)
	for _, h := range n.Handlers {
		labels[job.LabelHandler+h] = ""
	}
	if n.Commands {
		labels[job.LabelCommands] = ""
	}
	for _, r := range n.Runtimes {
		labels[job.LabelImages], labels[job.LabelRuntime+r] = "", ""
	}
	return labels
}

// Runs tells whether the node can run tasks that need a label of [job.Spec.Means]. A node that
// announces nothing may run any, but no images, which it does not know.
func (n *Node) Runs(means string) bool {
	switch what, runs := strings.CutPrefix(means, job.LabelRuntime); {
	case means == job.LabelImages:
		return len(n.Runtimes) > 0
	case runs && means != job.LabelCommands:
		return slices.Contains(n.Runtimes, what)
	case means == "" || !n.Announces:
		return true
	case runs:
		return n.Commands
	}
	return slices.Contains(n.Handlers, strings.TrimPrefix(means, job.LabelHandler))
}
