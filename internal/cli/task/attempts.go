package task

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/events/jet/outputs"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task"
)

// taskAttempts lists the attempts of a task.
func (a *Commands) taskAttempts() *cobra.Command {
	var o settings.Output
	c := &cobra.Command{
		Use: "attempts ID", Aliases: []string{"tries"},
		Short: "List the attempts of a task: where, how long, how they ended",
		Long: `Lists all attempts of a task, also those of earlier lives ("task retry"), with what
followed and where in the stream MR_TASKLOG their output is, which --at does not tell.
"millrace task logs ID --attempt N" prints it.`,
		Args: settings.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	o.Flags(c)
	c.RunE = a.withFacts(c, func(ctx context.Context, cl *client.Client, s *connect.Sight, id task.ID, records []events.Record) error {
		found := wording.Tries(records)
		var logs map[uint64]outputs.Range
		if s.Past == nil {
			var err error
			if logs, err = cl.OutputRanges(ctx, id); err != nil {
				return err
			}
		}
		if !o.JSON() {
			t := triesTable(found, logs, s.Now())
			s.Mark(&t, a.Now())
			return a.Print(t)
		}
		a.NoteMoment(s)
		type attempt struct {
			task.Try
			Log *outputs.Range `json:"log,omitempty"`
			// LogMayGoOn tells that more may have been printed than was stored.
			LogMayGoOn bool `json:"log_may_go_on,omitempty"`
		}
		all := make([]attempt, len(found))
		for i, t := range found {
			all[i].Try, all[i].LogMayGoOn = t, t.Unheard()
			if l, ok := logs[t.Epoch]; ok {
				all[i].Log = &l
			}
		}
		return a.WriteJSON(all)
	})
	return c
}

// triesTable lays attempts out; logs is nil if they were not read.
func triesTable(tries []task.Try, logs map[uint64]outputs.Range, now time.Time) term.Table {
	t := term.Table{Header: []string{"TRY", "NODE", "STARTED", "TOOK", "OUTCOME", "EXIT", "THEN"}, Spare: []string{"THEN", "LOG", "EXIT", "STARTED"}, Foot: []string{wording.Plural(len(tries), "attempt")}}
	if logs != nil {
		t.Header = append(t.Header, "LOG")
	}
	t.Header = append(t.Header, "MESSAGE")
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
			then = "again at " + wording.Clock(k.Retry.Due)
		}
		row := []term.Cell{term.Plain(strconv.Itoa(k.Attempt)), term.Plain(k.Node), term.Plain(wording.Clock(k.StartedAt)), term.Plain(wording.Span(max(end.Sub(k.StartedAt), 0))),
			term.Plain(outcome), term.Plain(exit), term.Plain(wording.Words(then, k.Reason))}
		if logs != nil {
			at := ""
			if l, ok := logs[k.Epoch]; ok {
				at = fmt.Sprintf("%d-%d, %s", l.First, l.Last, wording.Plural(l.Lines, "line"))
				if k.Unheard() {
					at += " or more"
				}
			}
			row = append(row, term.Plain(at))
		}
		message, _, _ := strings.Cut(k.Message, "\n")
		t.Add(append(row, term.Plain(term.Cut(message, 80)))...)
	}
	return t
}
