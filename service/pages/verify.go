package pages

import (
	"context"
	"strconv"
	"strings"
	"time"

	"millrace/events/jet/rights"
	"millrace/history/verify"
	"millrace/service/answers"
	"millrace/service/client"
	"millrace/service/inspect"
)

var (
	verifyPage = page{name: "verify", path: "/verify", entry: "Verify", verb: rights.LogVerify, show: showVerify}
	// auditPage begins a run.
	auditPage = page{name: "verify", path: "/verify/do", verb: rights.LogVerify, do: beginVerify, show: func(context.Context, *look) (any, error) { return nil, elsewhere("/verify") }}
)

type verifyData struct {
	// Run is the current or the last run; nil if there was none since the server started.
	Run  *inspect.Run
	Goes bool
	// Took is how long it took, or has gone on.
	Took time.Duration
	// Wrong says why it has no result.
	Wrong    panel
	Findings []verify.Finding
	More     int
	// Most is how many messages a run reads, and Next where another one would continue, 0 if this
	// one has reached the end.
	Most int
	Next uint64
}

// shownFindings is how many are on the page.
const shownFindings = 200

func showVerify(_ context.Context, l *look) (any, error) {
	d := &verifyData{Most: answers.VerifyMost}
	is, any := l.site.audits.Last()
	if !any {
		return d, nil
	}
	d.Run, d.Goes, d.Took = &is, is.Goes(), is.Ended.Sub(is.Began)
	if d.Goes {
		d.Took, l.moving = l.Now.Sub(is.Began), true
	}
	d.Wrong.fail(is.Err)
	if r := is.Report; r != nil {
		d.Findings = r.Findings[:min(len(r.Findings), shownFindings)]
		d.More = max(r.Violations-len(d.Findings), 0)
		if is.Interrupted {
			d.Next = r.Last + 1
		}
	}
	return d, nil
}

// beginVerify requests a run over a range.
func beginVerify(_ context.Context, l *look) error {
	var bounds [2]uint64
	for i, name := range []string{"from", "to"} {
		text := strings.TrimPrefix(strings.TrimSpace(l.typed.Get(name)), "#")
		if text == "" {
			continue
		}
		var err error
		if bounds[i], err = strconv.ParseUint(text, 10, 64); err != nil {
			return client.Wrongf("%s is %q, want a sequence of the log", name, text)
		}
	}
	if bounds[1] > 0 && bounds[1] < bounds[0] {
		return client.Wrongf("to is %d, before from, which is %d", bounds[1], bounds[0])
	}
	// If a run is in progress, the page that the caller is redirected to shows that.
	_ = l.site.audits.Ask(l.caller.Name, bounds[0], bounds[1], l.site.server.Desk.Now())
	return nil
}
