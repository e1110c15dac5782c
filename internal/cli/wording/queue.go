package wording

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"millrace/internal/cli/term"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/placement"
	"millrace/task/queue"
)

// QueueLine is what commands print of a queue that they have changed.
func QueueLine(q *queue.Queue) string {
	text := "open"
	if p := q.Paused; p != nil {
		text = Words("paused", By("until", p.Until), p.Reason)
	}
	return q.Name + " " + Words(text, q.Bounds().Words())
}

// QueueColumns are those of lists of queues, at a moment.
func QueueColumns(now time.Time) []term.Column[client.QueueView] {
	type row = *client.QueueView
	return []term.Column[client.QueueView]{
		term.Text("QUEUE", 0, func(q row) string { return q.Name }),
		term.Tints("STATE", 0, QueueState),
		term.Number("WAITING", 0, waitingText),
		term.Number("RUNNING", 0, func(q row) string {
			return strconv.Itoa(q.States[task.Running.String()] + q.States[task.Cancelling.String()])
		}),
		term.Number("LIMIT", 4, func(q row) string { return orDash(q.Limit) }),
		term.Text("RATE", 1, queueRateText),
		ages("OLDEST", 5, now, func(q row) time.Time { return q.Oldest }),
		term.Number("IN/S", 2, func(q row) string { return PerSecond(q.In) }),
		term.Number("OUT/S", 3, func(q row) string { return PerSecond(q.Out) }),
		term.Number("NODES", 0, func(q row) string { return strconv.Itoa(len(q.Nodes)) }),
	}
}

// QueueState is whether a queue lets tasks start.
func QueueState(q *client.QueueView) term.Cell {
	switch {
	case q.Paused != nil:
		return term.Tinted("paused", term.Yellow)
	case q.Shut != nil:
		return term.Tinted("closed", term.Yellow)
	case q.Unserved != nil:
		return term.Tinted("unserved", term.Red)
	}
	return term.Tinted("open", term.Green)
}

// waitingText is how many tasks wait, and their priorities if there are unusual ones.
func waitingText(q *client.QueueView) string {
	text := strconv.Itoa(q.States[task.Pending.String()])
	if q.MaxWaiting > 0 {
		text += fmt.Sprintf("/%d", q.MaxWaiting)
	}
	if p := prioritiesText(q.Waiting); p != "" {
		text += " (" + p + ")"
	}
	return text
}

// prioritiesText lists counts by priority, the highest first; "" if all have the usual one.
func prioritiesText(waiting map[int]int) string {
	var parts []string
	special := false
	for p := placement.MaxPriority; p >= placement.MinPriority; p-- {
		if n := waiting[p]; n > 0 {
			parts = append(parts, fmt.Sprintf("p%d: %d", p, n))
			special = special || p != placement.DefaultPriority
		}
	}
	if !special {
		return ""
	}
	return strings.Join(parts, ", ")
}

func orDash(n int) string {
	if n == 0 {
		return "-"
	}
	return strconv.Itoa(n)
}

// queueRateText is the rate of a queue, and how many tasks wait for it.
func queueRateText(q *client.QueueView) string {
	text := RateWords(q.Rate)
	if text == "" {
		return "-"
	}
	if r := q.RateState; r != nil && r.Waiting > 0 {
		text += fmt.Sprintf(" (%d wait)", r.Waiting)
	}
	return text
}

// PerSecond is a rate that was measured; "" if none was.
func PerSecond(r *float64) string {
	if r == nil {
		return ""
	}
	return strconv.FormatFloat(*r, 'f', 1, 64)
}
