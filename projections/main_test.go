package projections

import (
	"testing"

	"go.uber.org/goleak"

	"millrace/internal/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(testkit.Thrifty(m)) }
