package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/client"
	"millrace/events"
	"millrace/jet"
	"millrace/task"
)

// taskAttempts lists what a task has tried.
func (a *app) taskAttempts() *cobra.Command {
	var o output
	c := &cobra.Command{
		Use: "attempts ID", Aliases: []string{"tries"},
		Short: "List the attempts of a task: where, how long, how they ended",
		Long: `Lists all attempts of a task by its history, also those of lives before it was retried, with
what followed and where in the stream MR_TASKLOG their output lies.
"millrace task logs ID --attempt N" prints that.`,
		Args: takes(1, 1, "task id"), ValidArgsFunction: a.completeTasks,
	}
	o.flags(c)
	c.RunE = a.withTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		asking, cancel := a.asking(ctx)
		defer cancel()
		records, err := cl.History(asking, id)
		if err != nil {
			return err
		}
		found := tries(records)
		logs, err := cl.OutputRanges(ctx, id)
		if err != nil {
			return err
		}
		if !o.json() {
			return a.print(triesTable(found, logs, a.now()))
		}
		type attempt struct {
			task.Try
			Log *jet.OutputRange `json:"log,omitempty"`
			// LogMayGoOn says that more may have been printed than was stored.
			LogMayGoOn bool `json:"log_may_go_on,omitempty"`
		}
		all := make([]attempt, len(found))
		for i, t := range found {
			all[i].Try, all[i].LogMayGoOn = t, t.Unheard()
			if l, ok := logs[t.Epoch]; ok {
				all[i].Log = &l
			}
		}
		return a.writeJSON(all)
	})
	return c
}

func tries(records []events.Record) []task.Try {
	history := make([]task.Recorded, len(records))
	for i := range records {
		history[i] = records[i].Task()
	}
	return task.Tries(history)
}

// triesTable lays attempts out; logs is nil if nobody has looked.
func triesTable(tries []task.Try, logs map[uint64]jet.OutputRange, now time.Time) table {
	t := table{header: []string{"TRY", "NODE", "STARTED", "TOOK", "OUTCOME", "EXIT", "THEN"}, spare: []string{"THEN", "LOG", "EXIT", "STARTED"}, foot: []string{plural(len(tries), "attempt")}}
	if logs != nil {
		t.header = append(t.header, "LOG")
	}
	t.header = append(t.header, "MESSAGE")
	for _, k := range tries {
		end, exit, then := k.EndedAt, "", ""
		if end.IsZero() {
			end = now
		}
		if k.Exit != nil {
			exit = strconv.Itoa(*k.Exit)
		}
		outcome := k.Outcome
		if k.Class != "" {
			outcome += "/" + k.Class
		}
		if k.Retry != nil {
			then = "again at " + clock(k.Retry.Due)
		}
		row := []cell{plain(strconv.Itoa(k.Attempt)), plain(k.Node), plain(clock(k.StartedAt)), plain(span(max(end.Sub(k.StartedAt), 0))),
			plain(outcome), plain(exit), plain(words(then, k.Reason))}
		if logs != nil {
			at := ""
			if l, ok := logs[k.Epoch]; ok {
				at = fmt.Sprintf("%d-%d, %s", l.First, l.Last, plural(l.Lines, "line"))
				if k.Unheard() {
					at += " or more"
				}
			}
			row = append(row, plain(at))
		}
		message, _, _ := strings.Cut(k.Message, "\n")
		t.add(append(row, plain(cut(message, 80)))...)
	}
	return t
}

// retryWords is a retry policy in words.
func retryWords(r *task.Retry) string {
	text := fmt.Sprintf("up to %d", r.Max)
	if len(r.On) > 0 {
		text += ", on " + strings.Join(r.On, ", ")
	}
	if len(r.NotOn) > 0 {
		text += ", not on " + strings.Join(r.NotOn, ", ")
	}
	if r.AvoidNode {
		text += ", elsewhere"
		if r.AvoidWait > 0 {
			text += " for up to " + r.AvoidWait.String()
		}
	}
	if r.Budget > 0 {
		text += ", within " + r.Budget.String()
	}
	return text
}
