package dice
