// Package view defines the questions that can be asked of Millrace: about the present, a moment of
// the past, or a file. Why, Tree, Plan and Diff are functions over a [View], so they answer about
// the past as about the present.
//
// The package reads no clock and changes nothing. [Present] has the answers that do not follow from
// the log, which only the present has.
//
// [ParseFilter] and its like read the text with which people choose tasks, and the times that they
// type. The command line, the service and the pages share them.
package view
