// copies: a search hands each state over by value; repaired, by reference. blind_copies [repaired]
#include <cstdio>
#include <string>
#include <vector>

struct State {
  std::vector<std::string> moves;
  std::vector<int> board;
};

static bool repaired;

__attribute__((noinline)) static long score_copy(State state, int move) {
  long sum = 0;
  for (int cell : state.board) sum += cell ^ move;
  return sum + long(state.moves.size());
}

__attribute__((noinline)) static long score_state(const State &state, int move) {
  long sum = 0;
  for (int cell : state.board) sum += cell ^ move;
  return sum + long(state.moves.size());
}

__attribute__((noinline)) static long best_move(const State &state) {
  long best = 0;
  for (int move = 0; move < 64; move++) {
    long score = repaired ? score_state(state, move) : score_copy(state, move);
    if (score > best) best = score;
  }
  return best;
}

int main(int count, char **) {
  repaired = count > 1;
  State state;
  for (int i = 0; i < 256; i++) state.board.push_back(i * 31 % 97);
  for (int i = 0; i < 40; i++) state.moves.push_back("the move of a player, number " + std::to_string(i));
  long sum = 0;
  for (int turn = 0; turn < 9000; turn++) {
    state.board[turn % 256] ^= turn;
    sum += best_move(state);
  }
  std::printf("%ld\n", sum);
}
