package job

import "testing"

func TestAfter(t *testing.T) {
	for name, c := range map[string]struct {
		on   Handlers
		want string
	}{
		"another job":   {Handlers{Job: "extract"}, ""},
		"certain ends":  {Handlers{Job: "extract", Ends: []string{"error", "abnormal"}}, ""},
		"itself":        {Handlers{Job: "load"}, "on.job is the job itself, which would never come to an end"},
		"no job":        {Handlers{Ends: []string{"error"}}, "on.ends says which ends of another job count; set on.job"},
		"another state": {Handlers{Job: "extract", Ends: []string{"running"}}, `on.ends: "running" is none of finished, error, cancelled, abnormal`},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := c.on.validateAfter("load"); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
	every := Handlers{Job: "extract"}
	if !every.Counts("finished") || every.Counts("error") {
		t.Error("without ends only those that finish count")
	}
}
