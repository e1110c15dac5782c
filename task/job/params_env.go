package job

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"millrace/task/param"
	"millrace/task/value"
)

// VariablePrefix begins the names of variables that hold a parameter; see [Run.ParamsEnv].
const VariablePrefix = "P_"

// VariableOf is the name of the variable that holds a parameter: [VariablePrefix] and the name in
// capitals, with '_' for all that is not a letter from a to z, a digit or '_'.
func VariableOf(parameter string) string {
	return VariablePrefix + strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r - 'a' + 'A'
		case r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
			return r
		}
		return '_'
	}, parameter)
}

// Variables returns parameters as variables of an environment, "name=value", in the order of their
// names. Text is the value as it stands, null is empty, and any other value is its JSON. An error
// names two parameters that would be the same variable, or one whose text holds a zero byte.
func Variables(params map[string]json.RawMessage) ([]string, error) {
	all, owner := make([]string, 0, len(params)), make(map[string]string, len(params))
	for _, name := range slices.Sorted(maps.Keys(params)) {
		variable := VariableOf(name)
		if other, taken := owner[variable]; taken {
			return nil, fmt.Errorf("run.params_env: the parameters %s and %s would both be the variable %s: rename one", other, name, variable)
		}
		owner[variable] = name
		text := ""
		if is := bytes.TrimSpace(params[name]); len(is) > 0 && !bytes.Equal(is, []byte("null")) && json.Unmarshal(is, &text) != nil {
			var b bytes.Buffer
			if err := json.Compact(&b, is); err != nil {
				return nil, fmt.Errorf("run.params_env: parameter %s is no JSON", name)
			}
			text = b.String()
		}
		if strings.ContainsRune(text, 0) {
			return nil, fmt.Errorf("run.params_env: parameter %s holds a zero byte, which no variable can", name)
		}
		all = append(all, variable+"="+text)
	}
	return all, nil
}

// CheckVariables refuses parameters that cannot be variables where s wants them to be. A variable
// that the process gets anyway, from run.env or run.secrets, is refused as well.
func (s *Spec) CheckVariables(params map[string]json.RawMessage) error {
	if s.Run != nil && s.Run.ParamsEnv {
		variables, err := Variables(params)
		if err != nil {
			return err
		}
		for _, v := range variables {
			name, _, _ := strings.Cut(v, "=")
			if _, taken := s.Run.Env[name]; taken {
				return fmt.Errorf("run.env: %s is also the variable of a parameter, because of run.params_env: rename one", name)
			}
			if _, taken := s.Run.Secrets[name]; taken {
				return fmt.Errorf("run.secrets: %s is also the variable of a parameter, because of run.params_env: rename one", name)
			}
		}
	}
	of := func(field string, step *Step) error {
		given := maps.Clone(step.Params)
		if given == nil {
			given = params
		} else {
			maps.Copy(given, params)
		}
		return value.Under(field+".", step.CheckVariables(given))
	}
	for i := range s.Steps {
		if err := of(fmt.Sprintf("steps[%d]", i), &s.Steps[i]); err != nil {
			return err
		}
	}
	for _, h := range s.On.All() {
		if err := of(h.field, h.Step); err != nil {
			return err
		}
	}
	return nil
}

// known returns the parameters that a job names, with the values that it gives them.
func known(p *param.Params) map[string]json.RawMessage {
	all := maps.Clone(p.Values())
	if all == nil {
		all = map[string]json.RawMessage{}
	}
	for i := range p.Declared {
		if d := &p.Declared[i]; all[d.Name] == nil {
			all[d.Name] = json.RawMessage("null")
		}
	}
	return all
}

// NamesVariables tells whether s, or a step of it, wants parameters as variables.
func (s *Spec) NamesVariables() (wants bool) {
	s.whole(func(s *Spec) { wants = wants || s.Run != nil && s.Run.ParamsEnv })
	return wants
}
