"""moves: each move is tried on a copy of the whole board; repaired, made and taken back. newest_moves.py [repaired]"""
import copy
import dataclasses
import random
import sys

REPAIRED = len(sys.argv) > 1


@dataclasses.dataclass
class Board:
    fields: list
    score: int = 0

    def make_move(self, at, piece):
        row, column = divmod(at, len(self.fields))
        before, self.fields[row][column] = self.fields[row][column], piece
        self.score = sum(self.fields[row]) * 7 % 1000
        return before


def score_move(board, at, piece):
    if not REPAIRED:
        trial = copy.deepcopy(board)
        trial.make_move(at, piece)
        return trial.score
    before = board.make_move(at, piece)
    score = board.score
    board.make_move(at, before)
    return score


def rate_position(score):
    for step in range(150):
        score = (score * 31 + step) % 65521
    return score


def main():
    chance = random.Random(5)
    board = Board([[chance.randrange(9) for _ in range(24)] for _ in range(24)])
    best = 0
    for _ in range(6000):
        score = score_move(board, chance.randrange(24 * 24), chance.randrange(9))
        best = max(best, rate_position(score))
    print(best)


main()
