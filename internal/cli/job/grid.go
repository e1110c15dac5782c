package job

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"millrace/internal/cli/connect"
	"millrace/internal/cli/settings"
	"millrace/internal/cli/term"
	"millrace/internal/cli/wording"
	"millrace/service/client"
	"millrace/task/value"
)

func (a *Commands) scheduleGrid() *cobra.Command {
	var r client.GridRequest
	return (&connect.Reading[client.Grid]{
		Use: "grid [NAME]", Short: "Show what became of planned runs, by schedules and days or hours; needs a millrace server",
		Long: `Shows a row for each schedule and a column for each day or hour, the latest on the right. A cell says what
became of the planned runs in it: the worst first, with their number if there are several. A schedule with more planned
runs than the server looks up one by one has its failed and skipped ones counted alone.`,
		Example: `  millrace schedule grid
  millrace schedule grid nightly --columns 31
  millrace schedule grid --job backup --by hour --until 2026-03-01`,
		Of: "schedule", Maybe: true, Complete: a.CompleteSchedules, Watch: true,
		Flags: func(c *cobra.Command) {
			fs := c.Flags()
			fs.StringVar(&r.By, "by", "day", "what a column is, a `unit`: day or hour")
			settings.Count(fs, &r.Columns, "columns", "", "how many columns: 1 to 48 (default 14 days or 24 hours)")
			fs.StringVar(&r.Until, "until", "", "a `time` in the last column: 7d ago, 2026-03-01 (default now)")
			fs.StringVar(&r.Zone, "zone", "", "IANA `name` of the zone of days and hours (default that of most schedules)")
			fs.StringVar(&r.Job, "job", "", "the schedules of this `job`")
			fs.BoolVar(&r.Jobs, "jobs", false, "the schedules of jobs, without those of commands")
		},
		Check: func() error { is := r; return is.Check() },
		Request: func(ctx context.Context, cl *client.Client, name string, q connect.Question) (all client.Grid, err error) {
			r.Name, r.At = name, q.At
			for page := r; ; page.Cursor = all.Next {
				is, err := cl.Grid(ctx, page)
				is.Rows = append(all.Rows, is.Rows...)
				if all = is; err != nil || is.Next == "" {
					return all, err
				}
			}
		},
		Table: func(g client.Grid, s *connect.Sight) term.Table { return gridTable(&g, s.Now()) },
	}).Command(a.App)
}

// gridTable lays out a grid. A narrow terminal drops the oldest columns.
func gridTable(g *client.Grid, now time.Time) term.Table {
	zone, err := time.LoadLocation(g.Zone)
	if err != nil {
		zone = time.UTC // the server knows zones that this program does not
	}
	t := term.Table{Header: []string{"SCHEDULE"}, Foot: append(wording.GridLegend(g), "by "+g.By+", zone "+g.Zone+", until "+wording.ClockIn(value.Earlier(now, g.End), zone))}
	for _, begins := range g.Columns {
		name := wording.GridColumn(g, begins.In(zone))
		t.Header, t.Spare = append(t.Header, name), append(t.Spare, name)
	}
	for i := range g.Rows {
		row := []term.Cell{term.Plain(g.Rows[i].Schedule)}
		for j := range g.Rows[i].Cells {
			row = append(row, wording.GridCell(&g.Rows[i].Cells[j]))
		}
		t.Add(row...)
	}
	return t
}
