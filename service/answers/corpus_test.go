package answers

import (
	"encoding/json"
	"testing"

	"millrace/events/logtest"
	"millrace/history/verify"
	"millrace/internal/testkit"
	"millrace/projections/view"
	"millrace/service/client"
	"millrace/task"
	"millrace/task/birth"
	"millrace/task/job"
	"millrace/task/schedule"
)

// Old requests are still understood. A field that this version does not know is refused: else the
// caller would wait for an effect that does not come.
func TestRequestCorpus(t *testing.T) {
	request[birth.Submission](t, "submission")
	request[client.ListRequest](t, "list")
	request[client.LimitListRequest](t, "limits")
	request[client.NodeListRequest](t, "nodes")
	request[client.QueueListRequest](t, "queues")
	request[client.UnreadableRequest](t, "unreadable")
	request[copyRequest](t, "copy")
	request[deadLetter](t, "dead")
	request[applyRequest[job.Job]](t, "job")
	request[applyRequest[schedule.Calendar]](t, "calendar")
	request[applyRequest[schedule.Definition]](t, "schedule_definition")
	request[bulkRequest](t, "bulk")
	request[definitionRequest](t, "definition")
	request[diffRequest](t, "diff")
	request[editRequest](t, "edit")
	request[nameRequest](t, "name")
	request[manyRequest](t, "many")
	requestOf(t, "signal_many", signalManyRequest{manyRequest{Filter: client.ListRequest{Filter: view.Filter{Job: "j"}}, Limit: 7, Reason: "r"}, answered{"n", json.RawMessage(`{"n":1}`)}})
	request[client.Purge](t, "purge")
	request[nextRequest](t, "next")
	request[breakerRequest](t, "breaker")
	request[bundlesRequest](t, "bundles")
	request[versionRequest](t, "version")
	request[versionsRequest](t, "versions")
	requestOf(t, "verify", verifyRequest{From: 1, To: 2, Rules: []verify.Rule{verify.OneEpoch}})
	request[client.MomentRequest](t, "moment")
	request[pastRequest](t, "past")
	request[rangeRequest](t, "range")
	request[saidRequest](t, "said")
	requestOf(t, "output", outputRequest{saidRequest{ID: "01JNAT00000000000000000001", After: 7, Limit: 7}, 7})
	request[idRequest](t, "id")
	request[taskRequest](t, "task")
	request[diffAllRequest](t, "diff_all")
	request[textRequest](t, "text")
	request[awaitedNode](t, "awaited_node")
	request[shownSchedule](t, "shown_schedule")
	request[jobOfBreaker](t, "job_of_breaker")
	request[labelRequest](t, "label")
	request[drainRequest](t, "node")
	request[nodeRequest](t, "node_reason")
	request[planRequest](t, "plan")
	request[boundsRequest](t, "queue")
	request[queueRequest](t, "queue_reason")
	request[pauseRequest](t, "queue_pause")
	request[scheduleRunRequest](t, "schedule")
	request[scheduleRequest](t, "schedule_reason")
	request[pingRequest](t, "ping")
	request[client.FilesSweep](t, "files_gc")
	request[client.ArchiveNote](t, "archive_note")
	requestOf(t, "whatif", whatifRequest{Set: []string{"retry.max=5"}, Job: "j", Schedule: "s", From: "1", Until: "end", Simulate: true, Limit: 7})
	requestOf(t, "replay", replayRequest{From: "1", Until: "end", Task: "01JNAT00000000000000000001", Node: "n", Queue: "q", Schedule: "s", Limit: 7, Cursor: "1-9-3"})
	requestOf(t, "signal", signalRequest{rejectRequest: rejectRequest{idRequest{"01JNAT00000000000000000001", "r"}, "n"}, Data: json.RawMessage(`{"n":1}`)})
}

func request[T any](t *testing.T, name string) {
	t.Helper()
	var full T
	logtest.Fill(t, &full, append([]any{(func(*task.Task) bool)(nil)}, logtest.Samples...)...) // a request has no functions
	requestOf(t, name, full)
}

func requestOf[T any](t *testing.T, name string, full T) {
	t.Helper()
	write := func(v T) []byte {
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return append(text, '\n')
	}
	testkit.Test(t, testkit.Form{Dir: "testdata/corpus/request_" + name, Version: 1, Today: map[string][]byte{"full.json": write(full)}, Unknown: testkit.Refused,
		Again: func(written []byte) ([]byte, error) {
			v, err := read[T](written)
			return write(v), err
		}})
}

// Answers are read by clients of other versions, which pass over fields that they do not know.
func TestAnswerCorpus(t *testing.T) {
	logtest.JSONCorpus[client.ListPage](t, "testdata/corpus/answer_tasks")
	logtest.JSONCorpus[client.BulkReport](t, "testdata/corpus/answer_bulk")
	logtest.JSONCorpus[tickList](t, "testdata/corpus/answer_ticks")
	logtest.JSONCorpus[bundleList](t, "testdata/corpus/answer_bundles")
	logtest.JSONCorpus[bundleVersion](t, "testdata/corpus/answer_version")
	logtest.JSONCorpus[bundleDiff](t, "testdata/corpus/answer_versions")
	logtest.JSONCorpus[bundleCheck](t, "testdata/corpus/answer_check")
	logtest.JSONCorpus[client.JobList](t, "testdata/corpus/answer_jobs")
	logtest.JSONCorpus[client.LimitPage](t, "testdata/corpus/answer_limits")
	logtest.JSONCorpus[client.NodePage](t, "testdata/corpus/answer_nodes")
	logtest.JSONCorpus[client.QueuePage](t, "testdata/corpus/answer_queues")
	logtest.JSONCorpus[client.ScheduleList](t, "testdata/corpus/answer_schedules")
	logtest.JSONCorpus[client.UnreadablePage](t, "testdata/corpus/answer_unreadable")
}
