package task

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"millrace/events"
	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/internal/observe"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

func (a *Commands) taskTrace() *cobra.Command {
	var send bool
	c := &cobra.Command{
		Use:   "trace ID",
		Short: "Make an OpenTelemetry trace of a task and its children from the log",
		Long: `Makes the spans of a task and all below it from the log: its life, its attempts, the phases in which it waited. They
are the spans that a server and workers send while it runs, with the same ids. It prints them in the JSON form of OTLP, which
collectors read; --send sends them to the endpoint in the variables of OpenTelemetry ($OTEL_EXPORTER_OTLP_ENDPOINT).`,
		Example: `  millrace task trace ID > trace.json
  OTEL_EXPORTER_OTLP_ENDPOINT=http://localhost:4318 millrace task trace ID --send`,
		Args: settings.Takes(1, 1, "task id"), ValidArgsFunction: a.CompleteTasks,
	}
	sight := a.AtFlag(c, connect.Then{})
	c.Flags().BoolVar(&send, "send", false, "send it to the endpoint in the variables of OpenTelemetry")
	c.RunE = a.WithTask(func(ctx context.Context, cl *client.Client, id task.ID) error {
		s, err := sight(ctx, cl)
		if err != nil {
			return err
		}
		asking, cancel := a.Asking(ctx)
		defer cancel()
		ids, err := client.SubmittedOf(asking, s.View, id)
		if err != nil {
			return s.Unknown(err)
		}
		all, err := observe.Pasts(asking, func(ctx context.Context, id task.ID) ([]events.Record, error) {
			return view.All(ctx, s.View, view.Task(id))
		}, ids, s.Now())
		if err != nil {
			return err
		}
		a.NoteMoment(&s)
		config := observe.Config{Version: wording.ThisBuild().Version}
		if send {
			return a.sendSpans(asking, config, all)
		}
		text, err := observe.JSON(asking, config, all)
		if err == nil {
			_, err = a.Out.Write(append(text, '\n'))
		}
		return err
	})
	return c
}

func (a *Commands) sendSpans(ctx context.Context, config observe.Config, all []observe.Span) error {
	if _, err := observe.Wanted(os.Getenv); err != nil {
		return term.MisuseOf(err)
	}
	switch wanted, err := observe.Deliver(ctx, config, all); {
	case err != nil:
		return &term.Fault{Code: term.ExitError, Err: fmt.Errorf("the spans were not sent: %w", err), Hint: term.Hint("a collector takes them by OTLP over HTTP, mostly at port 4318")}
	case !wanted:
		return &term.Fault{Code: term.ExitUsage, Err: errors.New("--send, and no variable says where to"), Hint: term.Hint("set $OTEL_EXPORTER_OTLP_ENDPOINT, such as http://localhost:4318")}
	}
	if len(all) > 0 {
		a.Note("%s sent, in trace %x", wording.Plural(len(all), "span"), all[0].Trace)
	}
	return nil
}
