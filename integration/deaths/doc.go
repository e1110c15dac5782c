// Package deaths holds tests of one promise: killed processes, restarted servers, deleted streams
// and full disks take no task and no definition with them.
package deaths
