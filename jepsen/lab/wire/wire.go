// Package wire is what the lab and the agent in a guest say to each other, over HTTP:
//
//	POST /exec?within=30s           a script for bash; the answer is what it printed, the trailer its exit code
//	POST /jobs                      a Job in JSON, which goes on by itself
//	GET  /jobs/NAME?within=30s      waits for its end; the answer is its exit code
//	POST /jobs/NAME/signal?number=9 signals it
//	PUT  /file?path=P&mode=600      replaces a file as a whole, synced
//	GET  /file?path=P
//	GET  /stream?network=unix&address=P   becomes a stream to a socket of the guest
//	POST /stop                      syncs and powers the guest off
package wire

// Port is where the agent listens, on the management network.
const Port = "9000"

// Code is the trailer with a script's exit code. It is Late for one that was killed because
// its time was over, and Stuck when it is not even dead: a process is in the kernel (state D).
const (
	Code  = "X-Code"
	Late  = "late"
	Stuck = "stuck"
)

// Job is a program in a guest that goes on by itself.
type Job struct {
	Name string   `json:"name"`
	Argv []string `json:"argv"`
	Env  []string `json:"env,omitempty"`
	// Log is the file that its output is appended to, on the host's disk as soon as printed.
	Log string `json:"log"`
}
