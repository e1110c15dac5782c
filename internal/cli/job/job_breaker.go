package job

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task/job"
	"millrace/task/limit"
	"millrace/task/value"
)

// jobBreaker shows and resets the breakers of jobs.
func (a *Commands) jobBreaker() *cobra.Command {
	c := settings.Noun(&cobra.Command{
		Use: "breaker", Aliases: []string{"circuit"},
		Short: "Breakers: they keep the tasks of a failing job from starting",
		Example: `  millrace job breaker show crawl
  millrace job breaker reset crawl --reason "the site is back"`,
	})
	c.AddCommand(a.breakerShow())
	return c
}

func (a *Commands) breakerShow() *cobra.Command {
	return (&connect.Reading[breaker]{
		Use: "show JOB", Short: "Say how the breaker of a job stands, and why",
		Of: "job", Complete: a.CompleteJobs,
		Read: func(ctx context.Context, cl *client.Client, s *connect.Sight, name string) (b breaker, err error) {
			if b.job = name; s.Past == nil {
				b.Circuit, err = cl.Breaker(ctx, name)
			} else {
				b.Circuit, err = breakerIn(ctx, s, name)
			}
			return b, err
		},
		Table: func(b breaker, s *connect.Sight) term.Table {
			t := term.Table{Title: "Breaker of job " + b.job}
			t.Field("state", string(b.State))
			t.Field("reason", b.Reason)
			t.Field("since", wording.Moment(b.Since, s.Now()))
			switch b.State {
			case limit.StateOpen:
				t.Field("half open at", wording.Moment(b.Until, s.Now()))
			case limit.StateHalfOpen:
				t.Field("trials left", fmt.Sprint(b.Left))
				t.Field("trials until", wording.Moment(b.Until, s.Now()))
			}
			return t
		},
	}).Command(a.App)
}

// breaker is how the breaker of a job stands.
type breaker struct {
	limit.Circuit
	job string
}

// breakerIn returns the breaker of a job as of a sight. It is closed if the job has none.
func breakerIn(ctx context.Context, s *connect.Sight, job string) (limit.Circuit, error) {
	if err := value.ValidName("job", job); err != nil {
		return limit.Circuit{}, err
	}
	is, err := s.View.Get(ctx, view.Breaker(job))
	if err != nil {
		return limit.Circuit{}, err
	}
	return *is.Breaker, nil
}

// jobCircuit returns the state of a job's breaker; nil if the job has none.
func jobCircuit(ctx context.Context, v view.View, j *job.Job) (*limit.Circuit, error) {
	if !j.Guarded() {
		return nil, nil
	}
	item, err := v.Get(ctx, view.Breaker(j.Name))
	return item.Breaker, err
}

// circuitLine is that as a comment in the job's file.
func circuitLine(c *limit.Circuit) string {
	switch {
	case c == nil:
		return ""
	case c.State == limit.StateOpen:
		return fmt.Sprintf("# breaker open until %s: %s\n", wording.Clock(c.Until), term.Printable(c.Reason))
	}
	return fmt.Sprintf("# breaker %s\n", c.State)
}
