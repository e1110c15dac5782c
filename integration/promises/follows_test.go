package promises

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"millrace/integration/harness"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
)

// Each end of a job's task makes one task of the job that follows it, while both servers are killed between ends
// and births, and the causes of that task lead to the first one.
func TestAJobFollowsTheEndsOfAnother(t *testing.T) {
	t.Parallel()
	p := harness.New(t, 2*time.Second)
	p.NATS()
	serve := func(data string) *harness.Process {
		server := p.Start("server", "--data", data)
		server.Until("it serves", func() bool { return strings.Contains(server.Said.String(), "Millrace serves ") })
		return server
	}
	servers := []*harness.Process{serve("one"), serve("two")}
	p.Worker("a", "--slots", "4")
	p.Write("jobs.yaml", strings.Join([]string{
		"name: extract\nparams: {code: 0}\nrun: {shell: 'exit $P_CODE', params_env: true}\n",
		"name: load\non: {job: extract, ends: [finished, error]}\nparams:\n  - {name: state, type: string}\nrun: {shell: 'test -n \"$P_STATE\"', params_env: true}\n",
		"name: tell\non: {job: load}\nrun: \"true\"\n",
		"name: alarm\non: {job: extract, ends: [finished, error], when: payload.state == 'error' and payload.reason == 'exit'}\nrun: \"true\"\n",
	}, "---\n"))
	p.Run("job", "apply", "-f", "jobs.yaml")
	c := p.Connect()
	want := map[task.ID]string{}
	for i := range 24 {
		code := i % 2
		id := task.ID(strings.TrimSpace(p.Run("run", "extract", "--param", fmt.Sprintf("code=%d", code))))
		want[id] = []string{"finished", "error"}[code]
		if i%8 == 7 { // the one that goes first, and then the other
			one := i / 8 % 2
			servers[one].Kill()
			servers[one] = serve([]string{"one", "two"}[one])
		}
	}
	ended := func(job string) []task.Task {
		page, err := c.List(t.Context(), client.ListRequest{Filter: view.Filter{Job: job, States: []task.State{task.Finished}, Limit: 100}})
		if err != nil {
			return nil // no server answers
		}
		return page.Tasks
	}
	var made, told, alarms []task.Task
	p.Until("each end has its task, and that one, too", func() bool {
		made, told, alarms = ended("load"), ended("tell"), ended("alarm")
		return len(made) >= len(want) && len(told) >= len(want) && len(alarms) >= len(want)/2
	})
	for i := range alarms {
		if want[alarms[i].After] != "error" {
			t.Errorf("task %s follows the end of %s, which is %s", alarms[i].ID, alarms[i].After, want[alarms[i].After])
		}
	}
	seen := map[task.ID]bool{}
	for i := range made {
		if after := made[i].After; want[after] == "" || seen[after] || !strings.Contains(string(made[i].Params), want[after]) {
			t.Errorf("task %s follows the end of %s with %s", made[i].ID, after, made[i].Params)
		}
		seen[made[i].After] = true
	}
	if len(made) != len(want) || len(told) != len(want) || len(alarms) != len(want)/2 {
		t.Errorf("%d ends made %d tasks, and those %d, want as many; half of them %d", len(want), len(made), len(told), len(alarms))
	}
	for _, s := range servers { // a server that begins again makes nothing twice
		s.Kill()
	}
	serve("one")
	p.Run("run", "extract")
	var loads int
	p.Until("the next end has its task", func() bool {
		loads = len(ended("load"))
		return len(ended("tell")) > len(want)
	})
	if loads != len(want)+1 {
		t.Errorf("%d tasks follow %d ends", loads, len(want)+1)
	}
	if said := p.Run("task", "why", string(told[0].ID), "--chain"); strings.Count(said, "after the end of") != 2 {
		t.Errorf("the causes of a task that follows what follows another:\n%s", said)
	}
	if said := p.Run("task", "show", string(made[0].ID)); !strings.Contains(said, "after the end of") {
		t.Errorf("a task that follows another:\n%s", said)
	}
}
