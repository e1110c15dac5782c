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

// later are tests that cost more than two and a half seconds of processor time. `go test ./...`
// leaves them to the task test:promises; -run with a name runs one. What a newcomer breaks first
// stays: a server and a worker that are killed, or adopt.
var later = []string{
	"TestADeadlineThatPassedInAnOutage",
	"TestAFunctionSurvivesKill",
	"TestAJobFollowsTheEndsOfAnother",
	"TestAMailWaitsForItsServer",
	"TestAProgramOutsideOfTheRepository",
	"TestAProgramWithoutAServer",
	"TestARateForAQueue",
	"TestARefusedMail",
	"TestAdoptFlood",
	"TestAdoptTooLate",
	"TestAdoptWithoutAnybodyElse",
	"TestAimedAtANodeThatHasJustComeBack",
	"TestAllThatFollowsFromTheLogIsLost",
	"TestAssistant",
	"TestBackupByRole",
	"TestBackupDrill",
	"TestBackupKilled",
	"TestChaos",
	"TestChaosInterrupted",
	"TestChurn",
	"TestCommandsByRole",
	"TestContinueWithoutServer",
	"TestCordonSurvivesRestart",
	"TestDeletedStreams",
	"TestDetection",
	"TestDurableCodeChanges",
	"TestDurableKilledEverywhere",
	"TestFilesMakeTasks",
	"TestFloodOfQueuesAndLabels",
	"TestForgottenMessagesStartNothing",
	"TestFullDisk",
	"TestFullDiskOfAnotherServer",
	"TestGarbage",
	"TestGraphOutlivesSchedulers",
	"TestHeartbeatsAreWiped",
	"TestHorizons",
	"TestHorizonsOfThree",
	"TestIdleRequestsStarveNobody",
	"TestImages",
	"TestImagesAreCancelled",
	"TestImagesOutliveNoWorker",
	"TestImportIntoNATS",
	"TestManyFailuresAreFewNotices",
	"TestMessagesMakeTasks",
	"TestMessagesWaitForRoom",
	"TestMetrics",
	"TestModuleElsewhere",
	"TestMonitorsTellOfSilence",
	"TestNoScheduler",
	"TestNothingErases",
	"TestNoticesHaveButtons",
	"TestNoticesSurviveTheirServer",
	"TestOldWorkerMeetsRestoredLog",
	"TestOlderLog",
	"TestOneOfTheNamedNodesThatIsFree",
	"TestOperatorsDrain",
	"TestOrderOnANodesOwnRoute",
	"TestPhases",
	"TestPingsSurviveServers",
	"TestPrograms",
	"TestQuarantine",
	"TestQuietHours",
	"TestReadyAfterServerRestart",
	"TestRealms",
	"TestRefusedForAWhile",
	"TestResidentPrograms",
	"TestRestartsAreNoRefuge",
	"TestRetire",
	"TestRoles",
	"TestSchedulesOverAnOutage",
	"TestScriptsByRole",
	"TestServerMemory",
	"TestServerRestarts",
	"TestStartsWhileAClusterElects",
	"TestTaskOfAnotherUser",
	"TestTasksGoWhereTheirHandlerIs",
	"TestTasksStartSoon",
	"TestThePastIsTheFoldOfWhatWasBefore",
	"TestThousandsOfSleepers",
	"TestTicksOfAKilledScheduler",
	"TestUpgradeCheck",
	"TestWorkerReturns",
	"TestWorkersSecrets",
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
