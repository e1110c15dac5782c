package events

import (
	"strings"
	"testing"
)

// No kind of chain is forgotten when the front of the log goes.
func TestEveryKindIsCarried(t *testing.T) {
	for k := range Kind(200) {
		_, said := Carries[k]
		if known := !strings.HasPrefix(k.String(), "kind("); known != said {
			t.Errorf("of %v is said how it is carried: %v", k, said)
		}
	}
}
