package job

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"millrace/task/value"
)

func TestSignalValidate(t *testing.T) {
	for want, s := range map[string]*Signal{
		"":                  {Name: "approval", Timeout: value.Duration(time.Hour), OnTimeout: SignalExpire},
		"signal.on_timeout": {OnTimeout: "later"},
		"is not set":        {OnTimeout: SignalGoOn},
		"signal.name":       {Name: "a b"},
		"signal.timeout":    {Timeout: -1},
	} {
		err := s.validate()
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v", want, err)
		}
	}
	for name, data := range map[string]string{"no JSON": "{", "too large": `"` + strings.Repeat("x", MaxInputs) + `"`} {
		if _, err := (*Signal)(nil).Inputs("ann", json.RawMessage(data)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
}
