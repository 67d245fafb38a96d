# A Sinatra server with three routes, for load.py: a template, sorted JSON, many small documents. STACKPROF: where its profile goes.
require 'sinatra/base'
require 'json'
require 'stackprof'

class App < Sinatra::Base
  set :server, :puma
  set :port, 5113
  set :logging, false
  set :quiet, true
  set :server_settings, Silent: true
  DATA = (0...200).map { |i| { name: "item #{i}", price: i * 1.25 } }

  template :page do
    '<ul><% items.each do |x| %><li><%= x[:name].upcase %> <%= x[:price] %></li><% end %></ul>'
  end

  def sorted_items
    DATA.sort_by { |x| -x[:price] }
  end

  get('/page') { erb :page, locals: { items: DATA } }
  get('/json') { JSON.generate(sorted_items) }
  get('/count') { DATA.sum { |x| JSON.generate(x).length }.to_s }
end

if ENV['STACKPROF']
  StackProf.start(mode: :cpu, interval: 2000, raw: true)
  at_exit { StackProf.stop; StackProf.results(ENV['STACKPROF']) }
end
App.run!
