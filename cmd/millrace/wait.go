package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"millrace/client"
	"millrace/task"
)

// waitAll waits for tasks, prints how each ended, in the order given, and
// returns the exit code of the first that did not finish. With asJSON it prints
// the task, or a list of them if there are several.
func (a *app) waitAll(ctx context.Context, c *client.Client, ids []task.ID, asJSON bool) error {
	p := a.progress()
	defer p.stop()
	var ended []task.Task
	code := exitOK
	for i, id := range ids {
		t, err := c.Watch(ctx, id, func(t task.Task) {
			if len(ids) > 1 {
				p.say(fmt.Sprintf("%d of %d tasks have ended", i, len(ids)), t)
			} else {
				p.say(brief(&t), t)
			}
		})
		if err != nil {
			p.stop()
			return a.stillRunning(ctx, c, err, ids[i:])
		}
		if code == exitOK {
			code = taskExit(t)
		}
		if ended = append(ended, t); !asJSON {
			p.clear()
			if _, err := fmt.Fprintln(a.out, ending(&t)); err != nil {
				return err
			}
			if len(t.Result) > 0 {
				if _, err := fmt.Fprintf(a.out, "result %s\n", printable(string(t.Result))); err != nil {
					return err
				}
			}
		}
	}
	p.stop()
	if asJSON {
		var v any = ended
		if len(ids) == 1 {
			v = ended[0]
		}
		if err := a.writeJSON(v); err != nil {
			return err
		}
	}
	return exit(code)
}

// stillRunning explains an end of the waiting that is not the tasks' own.
func (a *app) stillRunning(ctx context.Context, c *client.Client, err error, ids []task.ID) error {
	what := "task " + string(ids[0]) + " goes on"
	if len(ids) > 1 {
		what = fmt.Sprintf("%d tasks go on", len(ids))
	}
	switch {
	case errors.Is(err, context.Canceled):
		a.note("interrupted; %s: `millrace task logs -f %s` follows it, `millrace task cancel %s` ends it", what, ids[0], ids[0])
		return exit(exitInterrupted)
	case errors.Is(err, context.DeadlineExceeded):
		// The wait's own context has ended; the question has a bound of its own.
		asking, cancel := a.asking(context.WithoutCancel(ctx))
		defer cancel()
		why := what
		if e, err := a.explain(asking, c, &sight{view: c.View(), now: a.now}, ids[0]); err == nil {
			why = what + ": " + unended(e, a.now())
		}
		return &fault{code: exitTimeout, err: fmt.Errorf("timed out waiting; %s", why),
			hint: hint("`millrace task why %s` says more", ids[0])}
	}
	return err
}

// unended says why a task has not ended yet, and who must act.
func unended(e *explanation, now time.Time) string {
	text := fmt.Sprintf("it is %s for %s", e.State, span(now.Sub(e.Since)))
	if e.Message != "" {
		text += " (" + printable(e.Message) + ")"
	}
	text += fmt.Sprintf("; %s must act: %s", e.Who, e.What)
	if !e.By.IsZero() {
		text += ", by " + clock(e.By)
	}
	if e.Else != "" {
		text += "; otherwise " + e.Else
	}
	return text
}

// brief is where a task is, in a few words.
func brief(t *task.Task) string {
	words := []string{t.State.String()}
	switch t.State {
	case task.Pending:
		if on, own := t.Route.Node(); own {
			words = append(words, "for node "+on)
		} else {
			words = append(words, "in queue "+t.QueueName())
		}
	case task.Scheduled, task.Retrying:
		words = append(words, "until "+clock(t.Due))
	case task.Running, task.Cancelling:
		if t.Epoch > 0 {
			words = append(words, "on "+t.Node)
		} else if t.Children != nil {
			words = append(words, fmt.Sprintf("as %d children", len(t.Children.Names)))
		}
	}
	if t.Attempt > 1 && t.Live() {
		words = append(words, fmt.Sprintf("(attempt %d)", t.Attempt))
	}
	return strings.Join(words, " ")
}

// ending is how a task ended, in one line.
func ending(t *task.Task) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s", t.ID, stateAndReason(t))
	if t.Attempt > 0 {
		fmt.Fprintf(&b, " on attempt %d at %s", t.Attempt, t.Node)
		if t.Ran > 0 {
			fmt.Fprintf(&b, " after %s", span(t.Ran.Std()))
		}
	}
	if t.Message != "" {
		b.WriteString(": " + printable(t.Message))
	}
	return b.String()
}

// stateAndReason is the state with its reason code, for example error/exit.
func stateAndReason(t *task.Task) string { return stateText(t.State, t.Reason) }

// stateText leaves out the reasons that say no more than the state.
func stateText(s task.State, reason string) string {
	tells := s.Terminal() && reason != task.ReasonUser || s == task.Held
	if reason == "" || !tells {
		return s.String()
	}
	return s.String() + "/" + reason
}
