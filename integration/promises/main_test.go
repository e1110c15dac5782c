package promises

import (
	"os"
	"testing"

	"millrace/integration/harness"
)

func TestMain(m *testing.M) {
	if store := os.Getenv(natsStore); store != "" {
		os.Exit(serveNATS(store))
	}
	if with := os.Getenv(wrongTimeEnv); with != "" {
		os.Exit(wrongTool(with, os.Args[1:]))
	}
	if standsIn() {
		os.Exit(standInMain(os.Args[1:]))
	}
	os.Exit(harness.Main(m))
}
