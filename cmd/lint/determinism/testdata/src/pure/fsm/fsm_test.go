package fsm

import (
	"math/rand"
	"testing"
	"time"
)

func TestAdd(t *testing.T) {
	for range map[int]int{1: 2} {
		go add(rand.Int(), time.Now().Second())
	}
}
