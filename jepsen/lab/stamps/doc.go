// Package stamps decides, from what is in the blocks of a volume's replicas, whether the volume kept its word: no
// acknowledged write is lost, none goes back to an earlier writer or an earlier write, and no two writers' writes mix.
//
// A writer numbers its writes and puts each at the place of its number in a ring, with a stamp that says who wrote
// it. Writers of one volume follow each other as Turns. A turn begins two numbers behind the last acknowledged one of
// the turn before it: the number between may be a write that was complete and not yet acknowledged when its writer
// was stopped, so an acknowledgement of it that is noted late is still judged.
package stamps
