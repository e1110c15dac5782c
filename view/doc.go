// Package view says what may be asked of Millrace: of the present, of a moment of the past, of a file. Why, Tree, Plan
// and Diff are functions over a [View], so whoever can ask about now can ask about then.
//
// The package reads no clock and changes nothing. What the log does not decide is [Present], which only the present has.
package view
