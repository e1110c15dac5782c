package verb

import (
	"strings"
	"testing"

	"millrace/task/job"
)

func TestNodeNews(t *testing.T) {
	for _, c := range []struct {
		retired            bool
		meant, noNode      string
		atMost             string
		says, ends, leaves string
	}{
		{says: "no worker has registered as node w9; what", ends: "until a worker of this name starts (--no-node", leaves: "abnormal"},
		{atMost: ", and end as abnormal/expired if none does within 3h (start_deadline)", says: "no worker has registered as node w9; what", ends: "starts, and ends as abnormal/expired if none does within 3h (start_deadline)"},
		{meant: "w1", says: `no worker has registered as node w9; did you mean "w1"?; what`, ends: "until a worker of this name starts", leaves: "abnormal"},
		{retired: true, says: "node w9 is retired", ends: "until a worker of this name starts"},
		{noNode: job.NoNodeWait, says: "w9", ends: "starts (no_node: wait)", leaves: "abnormal"},
		{noNode: job.NoNodeFallback, says: "w9", ends: "goes to its queue", leaves: "waits"},
		{noNode: job.NoNodeFail, says: "w9", ends: "at once as abnormal/unplaceable", leaves: "waits"},
	} {
		got := nodeNews("w9", c.retired, c.meant, c.noNode, c.atMost)
		if !strings.Contains(got, c.says) || !strings.Contains(got, c.ends) || c.leaves != "" && strings.Contains(got, c.leaves) {
			t.Errorf("%+v: %q", c, got)
		}
	}
}
