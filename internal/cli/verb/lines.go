package verb

import (
	"context"
	"fmt"

	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/queue"
)

// shown completes an answer, which no read model has seen, for people.
func (m *command) shown(ctx context.Context, cl *client.Client, answer any) (any, error) {
	switch is := answer.(type) {
	case client.NodeView:
		rules, err := m.InForce(ctx, cl)
		return client.ViewNode(is.Node, m.Now(), rules.Nodes()), err
	case queue.Queue:
		is.Paused = is.PausedAt(m.Now())
		return is, nil
	}
	return answer, nil
}

// line is what is printed of a changed thing: one line for each noun, in a form that the command chooses.
func line(answer any, form string) string {
	switch is := answer.(type) {
	case task.Task:
		text := fmt.Sprintf("%s %s", is.ID, is.State)
		switch {
		case form == "route":
			text += " " + wording.WorkRoute(&is.Work)
		case form == "due" && !is.Due.IsZero():
			text += ", due " + wording.Clock(is.Due)
		}
		return text
	case client.NodeView:
		if form == "labels" {
			return wording.Words(string(is.ID), wording.Pairs(is.Labels))
		}
		return wording.NodeLine(&is)
	case queue.Queue:
		return wording.QueueLine(&is)
	}
	return fmt.Sprint(answer)
}
