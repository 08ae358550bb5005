package fsm

type wire chan int // want `channel`

func runs(w wire) int {
	go runs(nil) // want `goroutine`
	select {     // want `select`
	case <-w:
	default:
	}
	w <- 1        // want `channel`
	for range w { // want `channel`
	}
	_ = make(chan bool) // want `channel`
	return <-w          // want `channel`
}
