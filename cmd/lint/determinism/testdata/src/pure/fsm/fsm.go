package fsm

func add(a, b int) int { return a + b }
