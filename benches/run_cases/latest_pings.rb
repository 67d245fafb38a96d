# pings: an answer is asked for again and again with a pause; repaired, waited for. latest_pings.rb [repaired]
require "socket"

REPAIRED = !ARGV.empty?

def compress(number)
  (1..6_000).reduce(number) { |sum, each| (sum * 31 + each) % 1_000_003 }
end

def read_answer(socket)
  loop do
    answer = socket.read_nonblock(16, exception: false)
    return answer unless answer == :wait_readable

    REPAIRED ? socket.wait_readable : sleep(0.008)
  end
end

own, other = UNIXSocket.pair
child = fork do
  own.close
  while (request = other.recv(16)) && !request.empty?
    other.write((request.to_i + 1).to_s.ljust(16))
  end
end
other.close
sum = 0
300.times do |number|
  own.write(number.to_s.ljust(16))
  sum += read_answer(own).to_i + compress(number)
end
own.close
Process.wait(child)
puts sum
