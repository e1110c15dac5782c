package job

import "testing"

func TestTriggers(t *testing.T) {
	for name, c := range map[string]struct {
		on   Handlers
		want string
	}{
		"another job":           {Handlers{Job: "extract"}, ""},
		"certain ends":          {Handlers{Job: "extract", Ends: []string{"error", "abnormal"}}, ""},
		"itself":                {Handlers{Job: "load"}, "on.job is the job itself, which would never come to an end"},
		"no job":                {Handlers{Ends: []string{"error"}}, "on.ends says which ends of another job count; set on.job"},
		"another state":         {Handlers{Job: "extract", Ends: []string{"running"}}, `on.ends: "running" is none of finished, error, cancelled, abnormal`},
		"messages":              {Handlers{Subject: "orders.*.>"}, ""},
		"a stream":              {Handlers{Stream: "ORDERS"}, ""},
		"some of a stream":      {Handlers{Stream: "ORDERS", Subject: "*.created"}, ""},
		"messages and a job":    {Handlers{Job: "extract", Subject: "orders"}, ""},
		"an empty word":         {Handlers{Subject: "orders..x"}, `on.subject is "orders..x", want words with dots between them, of which * is any and a last > is all that follow`},
		"a space":               {Handlers{Subject: "or ders"}, `on.subject is "or ders", want words with dots between them, of which * is any and a last > is all that follow`},
		"all in the middle":     {Handlers{Subject: "a.>.b"}, `on.subject is "a.>.b", want words with dots between them, of which * is any and a last > is all that follow`},
		"everything":            {Handlers{Subject: ">"}, `on.subject is ">", which takes what is not meant for jobs; begin it with a word, or set stream`},
		"Millrace's own":        {Handlers{Subject: "mr.queue.>"}, `on.subject is "mr.queue.>", and mr is for Millrace or NATS itself; choose another one`},
		"the server's":          {Handlers{Subject: "$JS.EVENT.>", Stream: "S"}, `on.subject is "$JS.EVENT.>", and $JS is for Millrace or NATS itself; choose another one`},
		"answers":               {Handlers{Subject: "_INBOX_me.>"}, `on.subject is "_INBOX_me.>", and _INBOX_me is for Millrace or NATS itself; choose another one`},
		"no stream":             {Handlers{Stream: "a.b"}, `on.stream is "a.b", which is no name of a stream`},
		"the log":               {Handlers{Stream: "MR_LOG"}, "on.stream is MR_LOG, which is Millrace's own; for its events there are job and notify"},
		"copies of definitions": {Handlers{Stream: "KV_MR_DEFS"}, "on.stream is KV_MR_DEFS, which is Millrace's own; for its events there are job and notify"},
	} {
		t.Run(name, func(t *testing.T) {
			got := ""
			if err := c.on.validateTriggers("load"); err != nil {
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
