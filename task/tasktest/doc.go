// Package tasktest has the histories of tasks that the tests of the packages below task share.
package tasktest
