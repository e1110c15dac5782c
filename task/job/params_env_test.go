package job

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"millrace/task/param"
)

func TestVariables(t *testing.T) {
	for _, c := range []struct{ params, want, err string }{
		{`{}`, "", ""},
		{`{"replicas":3,"id":9007199254740993,"f":1.50,"on":true,"name":"a b","none":null,"empty":""}`,
			"P_EMPTY= P_F=1.50 P_ID=9007199254740993 P_NAME=a b P_NONE= P_ON=true P_REPLICAS=3", ""},
		{`{"list":[1, "a"],"o":{"b": {"c":null}},"text":"[1, 2]","q":"\"x\"\n$HOME"}`, "P_LIST=[1,\"a\"] P_O={\"b\":{\"c\":null}} P_Q=\"x\"\n$HOME P_TEXT=[1, 2]", ""},
		{`{"max-age":1,"a.b c":2,"é":3}`, "P_A_B_C=2 P_MAX_AGE=1 P__=3", ""},
		{`{"a-b":1,"a_b":2}`, "", "the parameters a-b and a_b would both be the variable P_A_B"},
		{`{"a":1,"A":2}`, "", "the parameters A and a would both be the variable P_A"},
		{`{"a":"x\u0000"}`, "", "parameter a holds a zero byte"},
	} {
		var params map[string]json.RawMessage
		if err := json.Unmarshal([]byte(c.params), &params); err != nil {
			t.Fatal(err)
		}
		got, err := Variables(params)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) {
				t.Errorf("%s: %v, want %s", c.params, err, c.err)
			}
		} else if text := strings.Join(got, " "); err != nil || text != c.want || !slices.IsSorted(got) {
			t.Errorf("%s: %q, %v, want %q", c.params, text, err, c.want)
		}
	}
}

// TestVariablesClash: a job whose parameters cannot be variables is refused when it is stored.
func TestVariablesClash(t *testing.T) {
	of := func(names ...string) (p param.Params) {
		for _, name := range names {
			p.Declared = append(p.Declared, param.Param{Name: name, Optional: true})
		}
		return p
	}
	run := func(env bool) Spec { return Spec{Run: &Run{Shell: "env", ParamsEnv: env}} }
	step := Job{Name: "a", Params: of("a-b"), Spec: Spec{Steps: []Step{{Name: "s", Spec: run(true), Params: map[string]json.RawMessage{"a_b": json.RawMessage("1")}}}}}
	env := Job{Name: "a", Params: of("x"), Spec: run(true)}
	env.Run.Env = map[string]string{"P_X": "1"}
	secret := Job{Name: "a", Params: param.Params{Defaults: map[string]json.RawMessage{"x": json.RawMessage("1")}}, Spec: run(true)}
	secret.Run.Secrets = map[string]Secret{"P_X": {File: "x"}}
	for name, c := range map[string]struct {
		job  Job
		want string
	}{
		"clash":   {Job{Name: "a", Params: of("a-b", "a_b"), Spec: run(true)}, "run.params_env: the parameters a-b and a_b"},
		"not set": {Job{Name: "a", Params: of("a-b", "a_b"), Spec: run(false)}, ""},
		"none":    {Job{Name: "a", Params: of("a-b", "b"), Spec: run(true)}, ""},
		"step":    {step, "steps[0].run.params_env: the parameters a-b and a_b"},
		"env":     {env, "run.env: P_X is also"},
		"secret":  {secret, "run.secrets: P_X is also"},
	} {
		err := c.job.Validate()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}
