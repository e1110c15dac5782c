package promises

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"millrace/integration/harness"
	"millrace/internal/testkit"
)

func TestMain(m *testing.M) {
	if store := os.Getenv(natsStore); store != "" {
		os.Exit(serveNATS(store))
	}
	if os.Getenv(durableEnv) != "" && filepath.Base(os.Args[0]) != "millrace" {
		os.Exit(durableMain(os.Args[1:]))
	}
	if with := os.Getenv(wrongTimeEnv); with != "" {
		os.Exit(wrongTool(with, os.Args[1:]))
	}
	if filepath.Base(os.Args[0]) == "podman" {
		os.Exit(fakeRuntime(os.Args[1:]))
	}
	if standsIn() {
		os.Exit(standInMain(os.Args[1:]))
	}
	testkit.Later(later...)
	os.Exit(harness.Main(m))
}

// later are the tests that cost more than three seconds of processor time. `go test ./...` leaves
// them to the task test:promises; -run with a name runs one.
var later = []string{
	"TestAJobFollowsTheEndsOfAnother",
	"TestAllThatFollowsFromTheLogIsLost",
	"TestBackupDrill",
	"TestBackupKilled",
	"TestChaos",
	"TestChaosInterrupted",
	"TestChurn",
	"TestCommandsByRole",
	"TestDeletedStreams",
	"TestDurableKilledEverywhere",
	"TestFilesMakeTasks",
	"TestForgottenMessagesStartNothing",
	"TestFullDiskOfAnotherServer",
	"TestGarbage",
	"TestHorizons",
	"TestHorizonsOfThree",
	"TestImages",
	"TestImportIntoNATS",
	"TestManyFailuresAreFewNotices",
	"TestMessagesMakeTasks",
	"TestOlderLog",
	"TestOldWorkerMeetsRestoredLog",
	"TestPrograms",
	"TestResidentPrograms",
	"TestServerMemory",
	"TestServerRestarts",
	"TestStartsWhileAClusterElects",
	"TestThePastIsTheFoldOfWhatWasBefore",
	"TestThousandsOfSleepers",
	"TestTicksOfAKilledScheduler",
	"TestWrongClocks",
}

func TestLaterTestsAreThere(t *testing.T) {
	sources, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, name := range sources {
		source, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(source)
	}
	for _, name := range later {
		if !strings.Contains(all.String(), "\nfunc "+name+"(") {
			t.Errorf("no test is called %s", name)
		}
	}
}
